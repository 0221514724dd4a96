.headers on
.mode column
SELECT c.id, c.cut, count(t.kind) AS kinds, sum(t.stems) AS stems
FROM coupe c LEFT JOIN tree t ON t.coupe = c.id GROUP BY c.id ORDER BY c.id;
SELECT kind, avg(stems) OVER (ORDER BY kind ROWS 1 PRECEDING) FROM tree WHERE coupe < 4 ORDER BY kind, stems;
SELECT printf('%.6f', sum(stems * 1.5)) FROM tree;
