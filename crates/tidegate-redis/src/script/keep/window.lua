-- Fixed window. Kept: when it begins, how many it has admitted, and how long it is.
local function window_kept(raw)
  if #raw ~= 24 then error('this is not the state of a fixed window') end
  return unpack_state('<ddd', raw)
end

-- Start and count of the window at a time.
local function window_at(raw, at, period, limit, late, anchored)
  local fresh = anchored and at or at - at % period
  if not raw then return fresh, 0 end
  local start, count, length = window_kept(raw)
  count = min(count, limit)
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
  return pack('<ddd', start, count, period)
end

