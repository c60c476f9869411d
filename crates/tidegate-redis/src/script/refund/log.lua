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

