-- Exact log. Kept: a list of the times of admissions, the oldest first. Returns how many of its first entries are no
-- later than a time.
local function log_until(key, length, time)
  local low, high = 0, length
  while low < high do
    local middle = floor((low + high) / 2)
    if tonumber(call('LINDEX', key, middle)) <= time then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

