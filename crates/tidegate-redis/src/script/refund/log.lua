-- The oldest entries that are not older than what was taken.
local function log(key, cost, taken, period)
  local length = call('LLEN', key)
  if length == 0 or now - taken >= period then return 0 end
  local first = log_until(key, length, taken - 1)
  local entries = call('LRANGE', key, first, first + cost - 1)
  local n = #entries
  if n == 0 then return 0 end
  local entry = entries[1]
  if entry ~= entries[n] then
    -- One search finds them all if they are alike. Equal ones lie side by side anyway: so many are those, or as good.
    entry = ''
    for i = 1, n do call('LSET', key, first + i - 1, entry) end
  end
  -- From the nearer end.
  call('LREM', key, 2 * first > length and -n or n, entry)
  return 1
end

