-- Fixed window. Kept: when it begins, how many it has admitted, and how long it is. Returns start and count.
local function window_at(raw, at, period, limit, late, anchored)
  local fresh = anchored and at or at - at % period
  if not raw then return fresh, 0 end
  if #raw ~= 24 then error('this is not the state of a fixed window') end
  local start, count, length = unpack_state('<ddd', raw)
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

