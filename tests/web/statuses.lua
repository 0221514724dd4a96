-- For wrk: counts the statuses of the replies, and prints a line for each of them at the end.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

-- A thread's variables that are numbers are all that can be read from outside.
function init()
    for status = 100, 599 do
        _G["status" .. status] = 0
    end
end

function response(status)
    local name = "status" .. status
    _G[name] = _G[name] + 1
end

function done(summary)
    for status = 100, 599 do
        local count = 0
        for _, thread in ipairs(threads) do
            count = count + thread:get("status" .. status)
        end
        if count > 0 then
            print(string.format("status %d: %d", status, count))
        end
    end
    local errors = summary.errors
    print(string.format("broken: %d", errors.connect + errors.read + errors.write + errors.timeout))
end
