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
  return code, left, retry, next, reset, 0, now, code == 1 and cost > 0 and bucket_state(debt, num, den, burst), reset
end

