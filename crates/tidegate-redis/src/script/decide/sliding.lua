-- Time into a window is counted in whole units, so that limit * period / unit stays below 2^53.
local function sliding(raw, cost, period, limit, late, unit)
  local start, kept, current = sliding_at(raw, now, period, limit, late)
  -- Nobody waits out a larger limit; but what it has counted stays.
  local previous = min(kept, limit)
  current = min(current, limit)
  local whole = period / unit
  local rest = min(whole, whole - floor((now - start) / unit))
  local ends = start + period - now
  -- In how many microseconds a cost fits that does not fit now.
  local function wait(n)
    local till, beside, fading = ends, current + n, previous
    if beside > limit then
      till, beside, fading = ends + period, n, current
    end
    return max(0, till - floor((limit - beside) * whole / max(fading, 1)) * unit)
  end
  local code, retry = 1, 0
  if cost > limit then
    code = -1
  elseif cost > 0 and (current + cost > limit or previous * rest > (limit - current - cost) * whole) then
    code, retry = 0, wait(cost)
  else
    current = current + cost
  end
  local left = max(0, limit - current - ceil(previous * rest / whole))
  local next = left < limit and wait(left + 1) or -1
  local reset = current > 0 and ends + period or previous > 0 and ends or 0
  return code, left, retry, next, reset, ends, max(now, start),
    code == 1 and cost > 0 and sliding_state(start, kept, current, period), reset
end

