local function sliding(key, cost, taken, period, limit, late)
  local start, previous, current = sliding_at(call('GET', key), now, period, limit, late)
  if taken >= start then
    if current == 0 then return 0 end
    current = max(0, current - cost)
  elseif taken >= start - period then
    if previous == 0 then return 0 end
    previous = max(0, previous - cost)
  else
    return 0
  end
  local time = ceil((start + 2 * period - now) / 1000) + slack
  call('SET', key, sliding_state(start, previous, current, period), 'PX', time)
  return 1
end

