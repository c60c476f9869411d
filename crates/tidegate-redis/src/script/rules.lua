-- What both scripts share. All numbers are whole and below 2^53, so doubles hold them exactly; which limits keep
-- to that is checked before a script ever runs. Times are microseconds since 1970.
--
-- ARGV[1]  now, or '' for the server's own clock
-- ARGV[2]  see the script
-- then for each key seven: kind, cost, when it was taken (only to give back), and four numbers of the limit
local call, floor, ceil, max, min = redis.call, math.floor, math.ceil, math.max, math.min
local match, format = string.match, string.format

local now, slack
if ARGV[1] == '' then
  local time = call('TIME')
  now, slack = time[1] * 1000000 + time[2], 0
else
  -- Somebody else's clock: the server's must not make the key expire early.
  now, slack = tonumber(ARGV[1]), 86400000
end

-- A key is kept for so many microseconds; rounded up.
local function milliseconds(time)
  return format('%.0f', ceil(time / 1000) + 1 + slack)
end

-- Token bucket. Kept: when it is full again, in microseconds and 1/num of one; a permit is den of these units.
local function bucket_debt(raw, num, den, burst, horizon)
  if not raw then return 0 end
  local at, part, old_num, old_den = match(raw, '^(%d+):(%d+):(%d+):(%d+)$')
  local ahead = at - now
  if ahead < 0 then return 0 end
  old_num, old_den = tonumber(old_num), tonumber(old_den)
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
  return format('%.0f:%.0f:%.0f:%.0f', now + whole, debt - whole * num, num, den)
end

-- Fixed window. Kept: when it begins, how many it has admitted, and how long it is. Returns start and count.
local function window_at(raw, at, period, limit, late, anchored)
  local fresh = anchored and at or at - at % period
  if not raw then return fresh, 0 end
  local start, count, length = match(raw, '^(%d+):(%d+):(%d+)$')
  start, count, length = tonumber(start), min(tonumber(count), limit), tonumber(length)
  if length ~= period then
    -- Another limit's: what still counts is counted here.
    local age = at - start
    if age >= length or -age > late then return fresh, 0 end
    if not anchored then
      start = max(at, start)
      start = start - start % period
    end
  end
  local age = at - start
  if age >= period or -age > late or (count == 0 and age >= 0) then return fresh, 0 end
  return start, count
end

local function window_state(start, count, period)
  return format('%.0f:%.0f:%.0f', start, count, period)
end

-- Sliding window. Kept: when its current window begins, the counts of the last one and of this one, and how long
-- they are. Returns start, previous and current.
local function sliding_at(raw, at, period, limit, late)
  local fresh = at - at % period
  if not raw then return fresh, 0, 0 end
  local start, previous, current, length = match(raw, '^(%d+):(%d+):(%d+):(%d+)$')
  start, previous, current, length =
    tonumber(start), min(tonumber(previous), limit), min(tonumber(current), limit), tonumber(length)
  if length ~= period then
    -- Another limit's: what still weighs is counted in the window that is current.
    local age = at - start
    if age >= 2 * length or -age > late then return fresh, 0, 0 end
    if age >= length then
      previous, current, age = current, 0, age - length
    end
    local weight = ceil(previous / length * (length - max(age, 0)))
    start = max(at, start)
    return start - start % period, 0, min(current + weight, limit)
  end
  local age = fresh - start
  if age == 0 then return fresh, previous, current end
  if age == period then return fresh, current, 0 end
  if age < 0 and start - at <= late then return start, previous, current end
  return fresh, 0, 0
end

local function sliding_state(start, previous, current, period)
  return format('%.0f:%.0f:%.0f:%.0f', start, previous, current, period)
end

-- Exact log. Kept: a list of the times of admissions, the oldest first. Returns how many of its first entries are no
-- later than a time.
local function log_until(key, length, time)
  local low, high = 0, length
  while low < high do
    local middle = floor((low + high) / 2)
    if tonumber(call('LINDEX', key, middle)) <= time then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end
