-- Decides several requests at once.
--
-- ARGV[2]  'all' to count them if all are admitted, 'each' to count each that is, one after the other, 'none' to change
--          nothing
-- Returns now, and for each key seven: 1 admitted, 0 limited or -1 too costly; how many more would pass; in how many
-- microseconds the request passes, one more than that, and everything is back; when the window ends, or 0; and the
-- time that it was counted at.
--
-- A decision returns these seven, and, if it is to be counted, the new state and for how many microseconds to keep it.

local function decide(key, raw, first, cost)
  local kind, a, b, c = ARGV[first], tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5])
  if kind == 'b' then return bucket(raw, cost, a, b, c, tonumber(ARGV[first + 6])) end
  if kind == 's' then return sliding(raw, cost, a, b, c, tonumber(ARGV[first + 6])) end
  if kind == 'l' then return log(key, cost, a, b, c) end
  return window(raw, cost, a, b, c, kind == 'a')
end

local function count(key, first, state, time, at)
  time = ceil(time / 1000) + slack
  if ARGV[first] == 'l' then
    append(key, at, tonumber(ARGV[first + 1]), state)
    call('PEXPIRE', key, time)
  else
    call('SET', key, state, 'PX', time)
  end
end

if #KEYS == 1 then
  local key = KEYS[1]
  local raw = ARGV[3] ~= 'l' and call('GET', key)
  local code, left, retry, next, reset, ends, at, state, time = decide(key, raw, 3, tonumber(ARGV[4]))
  if state and ARGV[2] ~= 'none' then count(key, 3, state, time, at) end
  return {now, code, left, retry, next, reset, ends, at}
end

local reply, raws, states, times, refused = {now}, {}, {}, {}, false
for i, key in ipairs(KEYS) do
  local first, place = 7 * i - 4, 7 * i - 6
  local raw = ARGV[first] ~= 'l' and call('GET', key)
  local code, left, retry, next, reset, ends, at, state, time = decide(key, raw, first, tonumber(ARGV[first + 1]))
  if state and ARGV[2] == 'each' then
    count(key, first, state, time, at)
  else
    raws[i], states[i], times[i] = raw, state, time
  end
  refused = refused or code < 1
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = code, left, retry, next
  reply[place + 5], reply[place + 6], reply[place + 7] = reset, ends, at
end
if ARGV[2] == 'each' then return reply end

for i, key in ipairs(KEYS) do
  local first, place, state = 7 * i - 4, 7 * i - 6, states[i]
  if state and refused then
    -- It would have passed, and is not counted: as it stands.
    local code, left, retry, next, reset = decide(key, raws[i], first, 0)
    reply[place + 2], reply[place + 4], reply[place + 5] = left, next, reset
  elseif state and ARGV[2] == 'all' then
    count(key, first, state, times[i], reply[place + 7])
  end
end
return reply
