-- From the windows of whichever limit has counted it.
local function sliding(key, cost, taken, period, limit, late)
  local raw = call('GET', key)
  if not raw then return 0 end
  local _, _, _, length = sliding_kept(raw)
  local start, previous, current = sliding_at(raw, now, length, limit, late)
  if taken >= start then
    if current == 0 then return 0 end
    current = max(0, current - cost)
  elseif taken >= start - length then
    if previous == 0 then return 0 end
    previous = max(0, previous - cost)
  else
    return 0
  end
  local time = ceil((start + 2 * length - now) / 1000) + slack
  call('SET', key, sliding_state(start, previous, current, length), 'PX', time)
  return 1
end

