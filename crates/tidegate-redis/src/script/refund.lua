-- Gives back to several limits what was taken.
--
-- ARGV[2]  not looked at
-- Returns for each key whether anything was given back.

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
    reply[i] = window(key, cost, taken)
  end
end
return reply
