#!/usr/bin/mawk -f
BEGIN { FS = ","; for (i = 1; i < ARGC; i++) printf "arg %s\n", ARGV[i] }
NR > 1 { sum[$3] += $5; n[$3]++ }
END { for (t in sum) printf "%s %.2f\n", t, sum[t] / n[t] | "sort"; close("sort"); print NR, "lines" }
