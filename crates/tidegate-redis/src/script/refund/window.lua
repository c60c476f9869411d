-- Only what was taken within a window is in its count.
local function window(key, cost, taken, period, limit, late, anchored)
  local start, count = window_at(call('GET', key), taken, period, limit, late, anchored)
  local ends = start + period - now
  if count == 0 or taken < start or ends <= 0 then return 0 end
  count = max(0, count - cost)
  call('SET', key, window_state(start, count, period), 'PX', ceil(ends / 1000) + slack)
  return 1
end

