-- Sliding window. Kept: when its current window begins, the counts of the last one and of this one, and how long
-- they are.
local function sliding_kept(raw)
  if #raw ~= 32 then error('this is not the state of a sliding window') end
  return unpack_state('<dddd', raw)
end

-- Start and counts of the windows at a time; after a limit was lowered, more may be counted than it allows.
local function sliding_at(raw, at, period, limit, late)
  local fresh = at - at % period
  if not raw then return fresh, 0, 0 end
  local start, previous, current, length = sliding_kept(raw)
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
  return pack('<dddd', start, previous, current, period)
end

