-- By the limit that has counted it. What was taken so long ago has come back by itself.
local function bucket(key, cost, taken, ...)
  local debt, num, den, burst, horizon = bucket_at(call('GET', key), ...)
  if debt == 0 or now - taken + debt / num > horizon then return 0 end
  debt = debt - min(cost, burst) * den
  if debt > 0 then
    call('SET', key, bucket_state(debt, num, den, burst), 'PX', ceil(debt / num / 1000) + slack)
  else
    call('DEL', key)
  end
  return 1
end

