local trees = {oak = 3, ash = 9, hazel = 14}
local kinds = {}
for kind in pairs(trees) do kinds[#kinds + 1] = kind end
table.sort(kinds)
for i, kind in ipairs(kinds) do print(i, kind, trees[kind] << i) end
local shoots = coroutine.wrap(function() for year = 1, 3 do coroutine.yield("year " .. year) end end)
print(shoots(), shoots(), shoots())
for line in io.lines(arg[1]) do
	local word, count = line:match("^(%a+) (%d+)$")
	if word then io.write(word:upper(), "=", count / 4, ";") end
end
print(string.format("\n%5.2f %q", math.pi, "a\nb"), #arg)
print(pcall(error, {code = 2}) == false, select("#", table.unpack({1, 2, nil, 4}, 1, 4)))
os.exit(#arg - 1)
