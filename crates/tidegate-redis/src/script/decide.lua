-- Decides several requests at once.
--
-- ARGV[2]  'all' to count them if all are admitted, 'each' to count each that is, one after the other, 'none' to change
--          nothing
-- Returns now, and for each key seven: 1 admitted, 0 limited or -1 too costly; how many more would pass; in how many
-- microseconds the request passes, one more than that, and everything is back; when the window ends, or 0; and the
-- time that it was counted at.
--
-- A decision returns the first six and that time, then, of what to keep if it is counted, the new state and for how long.

local function bucket(raw, cost, num, den, burst, horizon)
  local full, debt = burst * den, bucket_debt(raw, num, den, burst, horizon)
  local want = debt + cost * den
  local code, retry = 1, 0
  if cost > burst then
    code = -1
  elseif cost > 0 and want > full then
    code, retry = 0, ceil((want - full) / num)
  else
    debt = want
  end
  local left = floor(max(full - debt, 0) / den)
  local next = left < burst and ceil((debt - (burst - left - 1) * den) / num) or -1
  local reset = ceil(debt / num)
  return code, left, retry, next, reset, 0, now, code == 1 and cost > 0 and bucket_state(debt, num, den), reset
end

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

-- Time into a window is counted in whole units, so that limit * period / unit stays below 2^53.
local function sliding(raw, cost, period, limit, late, unit)
  local start, previous, current = sliding_at(raw, now, period, limit, late)
  local whole = period / unit
  local rest = min(whole, whole - floor((now - start) / unit))
  local ends = start + period - now
  local function left()
    return max(0, limit - current - ceil(previous * rest / whole))
  end
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
  local remaining = left()
  local next = remaining < limit and wait(remaining + 1) or -1
  local reset = current > 0 and ends + period or previous > 0 and ends or 0
  return code, remaining, retry, next, reset, ends, max(now, start),
    code == 1 and cost > 0 and sliding_state(start, previous, current, period), reset
end

-- Of what to keep: how many old entries to drop, instead of a state.
local function log(key, cost, period, limit, late)
  local length = call('LLEN', key)
  local newest = length > 0 and tonumber(call('LINDEX', key, -1)) or 0
  local at = max(now, newest)
  local expired = 0
  if newest <= now - period or newest - now > late then
    -- All of it is expired, or the leftover of a clock that has jumped back.
    at, expired = now, length
  elseif tonumber(call('LINDEX', key, 0)) <= at - period then
    expired = log_until(key, length, at - period)
  end
  local used = length - expired
  local function wait(index)
    return tonumber(call('LINDEX', key, index)) + period - now
  end
  local back = used > 0 and newest + period - now or 0
  local left = max(limit - used, 0)
  -- The oldest in use that makes room; after a limit was lowered, older ones do not.
  local next = used > 0 and wait(expired + used - min(used, limit)) or -1
  if cost > limit then
    return -1, left, 0, next, back, 0, at
  end
  if cost > 0 and used + cost > limit then
    return 0, left, wait(length + cost - limit - 1), next, back, 0, at
  end
  if cost > 0 then
    left, back = left - cost, at + period - now
    next = used > 0 and next or back
  end
  return 1, left, 0, next, back, 0, at, cost > 0 and expired, back
end

local function decide(key, raw, first, cost)
  local kind = ARGV[first]
  local a, b, c, d = tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]),
    tonumber(ARGV[first + 6])
  if kind == 'b' then return bucket(raw, cost, a, b, c, d) end
  if kind == 's' then return sliding(raw, cost, a, b, c, d) end
  if kind == 'l' then return log(key, cost, a, b, c) end
  return window(raw, cost, a, b, c, kind == 'a')
end

local function append(key, time, cost, expired)
  if expired > 0 then call('LTRIM', key, expired, -1) end
  local text = format('%.0f', time)
  while cost > 0 do
    local some = {}
    for i = 1, min(cost, 1000) do some[i] = text end
    call('RPUSH', key, unpack(some))
    cost = cost - #some
  end
end

local function count(key, first, keep, time, at)
  if ARGV[first] == 'l' then
    append(key, at, tonumber(ARGV[first + 1]), keep)
    call('PEXPIRE', key, milliseconds(time))
  else
    call('SET', key, keep, 'PX', milliseconds(time))
  end
end

local reply, raws, keeps, refused = {now}, {}, {}, false
for i, key in ipairs(KEYS) do
  local first, place = 7 * i - 4, 7 * i - 6
  local raw = ARGV[first] ~= 'l' and call('GET', key)
  local code, left, retry, next, reset, ends, at, keep, time = decide(key, raw, first, tonumber(ARGV[first + 1]))
  if keep and ARGV[2] == 'each' then
    count(key, first, keep, time, at)
  elseif keep then
    raws[i], keeps[i] = raw, {keep, time, at}
  end
  refused = refused or code < 1
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = code, left, retry, next
  reply[place + 5], reply[place + 6], reply[place + 7] = reset, ends, at
end

for i, key in ipairs(KEYS) do
  local first, place, keep = 7 * i - 4, 7 * i - 6, keeps[i]
  if keep and refused then
    -- It would have passed, and is not counted: as it stands.
    local code, left, retry, next, reset = decide(key, raws[i], first, 0)
    reply[place + 2], reply[place + 4], reply[place + 5] = left, next, reset
  elseif keep and ARGV[2] == 'all' then
    count(key, first, keep[1], keep[2], keep[3])
  end
end
return reply
