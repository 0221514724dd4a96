-- For wrk: counts the statuses of the replies, and prints a line for each of them at the end.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init()
    statuses = {}
    for status = 100, 599 do
        statuses[status] = 0
    end
end

function response(status)
    statuses[status] = statuses[status] + 1
end

function done(summary)
    for status = 100, 599 do
        local count = 0
        for _, thread in ipairs(threads) do
            count = count + thread:get("statuses")[status]
        end
        if count > 0 then
            print(string.format("status %d: %d", status, count))
        end
    end
    local errors = summary.errors
    print(string.format("broken: %d", errors.connect + errors.read + errors.write + errors.timeout))
end
