-- Gives back to several limits what was taken.
--
-- ARGV[2]  not looked at
-- Returns for each key whether anything was given back.

-- What was taken so long ago has come back by itself.
local function bucket(key, cost, taken, num, den, burst, horizon)
  local debt = bucket_debt(call('GET', key), num, den, burst, horizon)
  if debt == 0 or now - taken + debt / num > horizon then return 0 end
  debt = debt - min(cost, burst) * den
  if debt > 0 then
    call('SET', key, bucket_state(debt, num, den), 'PX', milliseconds(debt / num))
  else
    call('DEL', key)
  end
  return 1
end

-- Only what was taken within a window is in its count.
local function window(key, cost, taken, period, limit, late, anchored)
  local start, count = window_at(call('GET', key), taken, period, limit, late, anchored)
  local ends = start + period - now
  if count == 0 or taken < start or ends <= 0 then return 0 end
  count = max(0, count - cost)
  call('SET', key, window_state(start, count, period), 'PX', milliseconds(ends))
  return 1
end

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
  call('SET', key, sliding_state(start, previous, current, period), 'PX', milliseconds(start + 2 * period - now))
  return 1
end

-- The oldest entries that are not older than what was taken.
local function log(key, cost, taken, period)
  local length = call('LLEN', key)
  if length == 0 or now - taken >= period then return 0 end
  local first = log_until(key, length, taken - 1)
  local entries = call('LRANGE', key, first, first + cost - 1)
  local i = 1
  while entries[i] do
    local last = i
    while entries[last + 1] == entries[i] do last = last + 1 end
    -- Equal ones lie side by side: so many from the first on are those, or as good.
    call('LREM', key, last - i + 1, entries[i])
    i = last + 1
  end
  return #entries > 0 and 1 or 0
end

local reply = {}
for i, key in ipairs(KEYS) do
  local first = 7 * i - 4
  local kind, cost, taken = ARGV[first], tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  local a, b, c, d = tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]),
    tonumber(ARGV[first + 6])
  if cost < 1 then
    reply[i] = 0
  elseif kind == 'b' then
    reply[i] = bucket(key, cost, taken, a, b, c, d)
  elseif kind == 's' then
    reply[i] = sliding(key, cost, taken, a, b, c)
  elseif kind == 'l' then
    reply[i] = log(key, cost, taken, a)
  else
    reply[i] = window(key, cost, taken, a, b, c, kind == 'a')
  end
end
return reply
