-- Of what to keep: how many old entries to drop, instead of a state.
local function log(key, cost, period, limit, late)
  local length = call('LLEN', key)
  local newest = length > 0 and tonumber(call('LINDEX', key, -1)) or 0
  local at = max(now, newest)
  local expired = 0
  if newest <= now - period or newest - now > late then
    -- All of it is expired, or the leftover of a clock that has jumped back.
    at, expired = now, length
  elseif length > 0 and tonumber(call('LINDEX', key, 0)) <= at - period then
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

local function append(key, time, cost, expired)
  if expired > 0 then call('LTRIM', key, expired, -1) end
  while cost > 0 do
    local some = {}
    for i = 1, min(cost, 1000) do some[i] = time end
    call('RPUSH', key, unpack(some))
    cost = cost - #some
  end
end

