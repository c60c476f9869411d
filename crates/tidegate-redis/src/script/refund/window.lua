-- Only what was taken within a window is in its count, whichever limit's it is.
local function window(key, cost, taken)
  local raw = call('GET', key)
  if not raw then return 0 end
  local start, count, length = window_kept(raw)
  local ends = start + length - now
  if count == 0 or taken < start or taken >= start + length or ends <= 0 then return 0 end
  count = max(0, count - cost)
  call('SET', key, window_state(start, count, length), 'PX', ceil(ends / 1000) + slack)
  return 1
end

