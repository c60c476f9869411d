-- Token bucket. Kept: when it is full again, in microseconds and units of 1/num of one, then num, and den: how many
-- units a permit is.
local function bucket_debt(raw, num, den, burst, horizon)
  if not raw then return 0 end
  if #raw ~= 32 then error('this is not the state of a token bucket') end
  local at, part, old_num, old_den = unpack_state('<dddd', raw)
  local ahead = at - now
  if ahead < 0 then return 0 end
  if old_num == num and old_den == den then
    -- Further ahead it is a leftover of a clock that has jumped back.
    if ahead > horizon then return 0 end
    return ahead * num + part
  end
  -- Another limit's: what was used stays used, in permits.
  local debt = ahead * old_num + part
  if debt > 9007199254740992 then return 0 end
  local whole = floor(debt / old_den)
  if whole >= burst then return burst * den end
  return whole * den + min(den, ceil((debt - whole * old_den) / old_den * den))
end

local function bucket_state(debt, num, den)
  local whole = floor(debt / num)
  return pack('<dddd', now + whole, debt - whole * num, num, den)
end

