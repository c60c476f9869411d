-- All numbers are whole and below 2^53, so doubles hold them exactly; which limits keep to that is checked before a
-- script ever runs. Times are microseconds since 1970.
--
-- ARGV[1]  now, or '' for the server's own clock
-- ARGV[2]  see the script
-- then for each key seven: kind, cost, when it was taken (only to give back), and four numbers of the limit
local call, floor, ceil, max, min = redis.call, math.floor, math.ceil, math.max, math.min
local pack, unpack_state = struct.pack, struct.unpack

local now, slack
if ARGV[1] == '' then
  local time = call('TIME')
  now, slack = time[1] * 1000000 + time[2], 1
else
  -- Somebody else's clock: the server's must not make the key expire early.
  now, slack = tonumber(ARGV[1]), 86400000
end
