-- Requests from clients that never come twice: another address and another key each time.
local thread_number = 0
function setup(thread)
    thread:set("number", thread_number)
    thread_number = thread_number + 1
end

function init()
    math.randomseed(os.time() * 1000 + number)
end

function request()
    local byte = function() return math.random(0, 255) end
    local address = string.format("%d.%d.%d.%d", math.random(1, 223), byte(), byte(), byte())
    local key = string.format("%08x%08x", math.random(0, 2 ^ 31 - 1), math.random(0, 2 ^ 31 - 1))
    return wrk.format("GET", "/bar", { ["X-Forwarded-For"] = address, ["X-Api-Key"] = key })
end
