local function window(raw, cost, period, limit, late, anchored)
  local start, count = window_at(raw, now, period, limit, late, anchored)
  local ends = start + period - now
  local code = 1
  if cost > limit then
    code = -1
  elseif count + cost > limit then
    code = 0
  else
    count = count + cost
  end
  local back = count > 0 and ends or 0
  return code, limit - count, code == 0 and ends or 0, count > 0 and ends or -1, back, ends, max(now, start),
    code == 1 and cost > 0 and window_state(start, count, period), ends
end

