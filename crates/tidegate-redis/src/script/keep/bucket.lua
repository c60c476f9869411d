-- Token bucket. Kept: when it is full again, in microseconds and units of 1/num of one; then num; den, how many units a
-- permit is; and the burst.

-- How many units are missing, by the limit that has written it, and what that was.
local function bucket_at(raw, num, den, burst, horizon)
  if not raw then return 0, num, den, burst, horizon end
  if #raw ~= 32 then error('this is not the state of a token bucket') end
  local at, part, old_num, old_den, old_burst = unpack_state('<dI4I4dd', raw)
  if old_num ~= num or old_den ~= den or old_burst ~= burst then
    -- As far ahead as that one may be.
    horizon = horizon - ceil(burst * den / num) + ceil(old_burst * old_den / old_num)
  end
  local ahead, debt = at - now, 0
  -- Further ahead it is a leftover of a clock that has jumped back.
  if ahead >= 0 and ahead <= horizon then debt = ahead * old_num + part end
  return debt, old_num, old_den, old_burst, horizon
end

-- How many units are missing; more than the burst if it was lowered.
local function bucket_debt(raw, num, den, burst, horizon)
  local debt, old_num, old_den = bucket_at(raw, num, den, burst, horizon)
  if old_num == num and old_den == den then return debt end
  -- Another rate's: what was used stays used, in permits, but nobody waits out an old rate.
  local whole = floor(debt / old_den)
  if whole >= burst then return burst * den end
  return whole * den + min(den, ceil((debt - whole * old_den) / old_den * den))
end

local function bucket_state(debt, num, den, burst)
  local whole = floor(debt / num)
  return pack('<dI4I4dd', now + whole, debt - whole * num, num, den, burst)
end

