changequote(`[', `]')dnl
define([repeat], [ifelse($1, 0, [], [$2[]repeat(decr($1), [$2])])])dnl
define([tree], [The $1 is TITLE($1).])dnl
define([TITLE], [translit([$1], [a-z], [A-Z])])dnl
tree(oak)
tree([ash])
repeat(5, [=])
eval(2 ** 20 % 1000) len(coppice) index(hollow coppice, copp)
syscmd([echo from a shell; exit 3])dnl
sysval
ifdef([EXTRA], [extra is EXTRA], [no extra])
