-- What was taken so long ago has come back by itself.
local function bucket(key, cost, taken, num, den, burst, horizon)
  local debt = bucket_debt(call('GET', key), num, den, burst, horizon)
  if debt == 0 or now - taken + debt / num > horizon then return 0 end
  debt = debt - min(cost, burst) * den
  if debt > 0 then
    call('SET', key, bucket_state(debt, num, den), 'PX', ceil(debt / num / 1000) + slack)
  else
    call('DEL', key)
  end
  return 1
end

