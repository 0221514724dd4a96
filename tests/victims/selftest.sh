#!/usr/bin/env bash
# Proves the victims without any recycling:
#
#     selftest.sh OUTDIR        (as build.sh has filled it)
#
# Each is run five times (VICTIM_RUNS says how often) by plain fork and exec, and must pass; then in the
# modes of VICTIM_PRETEND_STALE that the manifest names, and must fail there with one line that says
# what differs. As root all of this is done twice: as root, and as an unprivileged user.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
runs=${VICTIM_RUNS:-5}

# ---- one run

# What the caller gives, told to the victim. Sets `given`.
gather() { # program-path dir args...
    local path=$1 dir=$2 i=0 argument key line
    shift 2
    local status=/proc/$BASHPID/status
    given=("PATH=$PATH" "VICTIM_TOKEN=token-$(printf %08d $((token += 1)))" "EXPECT_PPID=$BASHPID"
        "EXPECT_CWD=$dir" "EXPECT_ROOT=/" "EXPECT_EXE=$path" "EXPECT_EXECFN=$path"
        "EXPECT_UMASK=0$(umask)" "EXPECT_NICE=$niceness" "EXPECT_FDS=0,1,2,7" "EXPECT_FILE_7=$dir/seven"
        "EXPECT_OFFSET_7=5" "EXPECT_ARGC=$(($# + 1))" "EXPECT_ARGV_0=$path" "EXPECT_UID=$as_uid"
        "EXPECT_EUID=$as_uid" "EXPECT_GID=$as_gid" "EXPECT_EGID=$as_gid" "EXPECT_SCHED_POLICY=0")
    for argument; do given+=("EXPECT_ARGV_$((i += 1))=$argument"); done
    while IFS=$':\t ' read -r key line; do
        case $key in
        SigBlk | SigIgn) given+=("EXPECT_${key^^}=$line") ;;
        CapBnd | CapAmb | CapInh) given+=("EXPECT_${key^^}=$line") ;;
        CapEff | CapPrm) [[ $unprivileged ]] || given+=("EXPECT_${key^^}=$line") ;;
        Groups)
            [[ ! $unprivileged ]] || line= # setpriv clears them
            given+=("EXPECT_GROUPS=${line// /,}")
            ;;
        Cpus_allowed) given+=("EXPECT_CPUS=${line##*,}") ;;
        Seccomp) given+=("EXPECT_SECCOMP=$line") ;;
        NoNewPrivs) given+=("EXPECT_NO_NEW_PRIVS=$line") ;;
        esac
    done <"$status"
    read -r line <"/proc/$BASHPID/stat"
    read -r _ _ pgid sid _ <<<"${line##*) }"
    given+=("EXPECT_PGID=$pgid" "EXPECT_SID=$sid" "EXPECT_TIMERSLACK=$(</proc/$BASHPID/timerslack_ns)"
        "EXPECT_COREDUMP_FILTER=$(</proc/$BASHPID/coredump_filter)"
        "EXPECT_OOM_SCORE_ADJ=$(</proc/$BASHPID/oom_score_adj)" "${limits[@]}")
}

# The limits as EXPECT_NOFILE=soft:hard and so on.
read_limits() {
    awk 'BEGIN { split("CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE " \
                       "NICELIMIT RTPRIO RTTIME", key) }
         NR > 1 { print "EXPECT_" key[NR - 1] "=" substr($0, 27, 20) ":" substr($0, 48, 20) }' \
        /proc/self/limits | tr -d ' '
}

# Runs the case once, in a directory; leaves `out`, `err` and the status in `code` there.
run_once() { # dir program-path [VARIABLE=value...] -- args...
    local dir=$1 path=$2 extra=()
    shift 2
    while [[ $1 != -- ]]; do extra+=("$1") && shift; done
    shift
    (
        cd "$dir/work"
        gather "$path" "$dir/work" "$@"
        exec 7<"$dir/work/seven"
        read -r -N 5 -u 7 _
        given+=("${extra[@]}" "EXPECT_ENVC=$((${#given[@]} + ${#extra[@]} + 1))")
        for fd in "/proc/$BASHPID/fd/"*; do # of this script and of who called it
            fd=${fd##*/}
            ((fd <= 2 || fd == 7)) || eval "exec $fd>&-"
        done
        # A shell of its own for the status: this one mistakes a pid that comes again for the earlier.
        exec sh -c '"$@" <"$0/stdin" >"$0/out" 2>"$0/err"; echo "$?" >"$0/code"' "$dir" \
            "${prefix[@]}" env -i "${given[@]}" "$path" "$@"
    ) 2>"$dir/shell" # what the shell itself says of a run that dies
    read -r code <"$dir/code"
}

# ---- one case

complain() {
    echo "selftest: $who: $case_name ($flavour): $*" >&2
    sed 's/^/    /' "$dir/err" | head -3 >&2
    failures=$((failures + 1))
}

# The status as a shell shows it: 128 and the number for a signal's name.
shell_status() {
    if [[ $1 == SIG* ]]; then echo $((128 + $(kill -l "${1#SIG}"))); else echo "${1:-0}"; fi
}

run_plainly() {
    local wanted
    wanted=$(shell_status "$status")
    : >"$dir/all"
    for ((run = 0; run < runs; run++)); do
        run_once "$dir" "$path" "${env_list[@]}" -- "${arg_list[@]}"
        plain=$((plain + 1))
        if [[ $code == 77 && $needs ]]; then
            echo "selftest: $who: $case_name ($flavour) left out: $(<"$dir/err")"
            return 1
        fi
        [[ $code == "$wanted" ]] || complain "ended with status $code, not $wanted"
        [[ $wanted != 0 || ! -s $dir/err ]] || complain "wrote to its standard error"
        case $stdout_rule in
        unique) cat "$dir/out" >>"$dir/all" ;;
        '') cmp -s "$dir/out" <(printf %b "$stdout") || complain "printed something else: $(<"$dir/out")" ;;
        esac
    done
    if [[ $stdout_rule == unique ]]; then
        [[ $(sort -u "$dir/all" | wc -l) == "$runs" ]] || complain "printed the same twice: $(<"$dir/all")"
    fi
    if [[ $writes ]]; then
        for ((wait = 0; wait < 50; wait++)); do
            written=("$dir/work/${writes//%d/}"*[0-9])
            [[ ${#written[@]} == "$runs" ]] && return
            sleep 0.1
        done
        complain "${#written[@]} files were written, not $runs"
    fi
}

run_pretending() {
    local mode last
    for mode in "${pretend_list[@]}"; do
        run_once "$dir" "$path" "${env_list[@]}" "VICTIM_PRETEND_STALE=$mode" -- "${arg_list[@]}"
        pretended=$((pretended + 1))
        last=$(tail -n 1 "$dir/err")
        [[ $code == 1 && $last == "victim $program: "* ]] ||
            complain "did not notice what is left (mode $mode, status $code): $last"
    done
}

run_case() {
    path=$bin/$program
    [[ $flavour == dynamic ]] || path=$path.$flavour
    if [[ ! -x $path && $flavour == musl* ]]; then return; fi
    dir=$scratch/$case_name.$flavour
    mkdir -p "$dir/work"
    chmod 777 "$dir/work"
    echo "0123456789" >"$dir/work/seven"
    printf %b "$stdin" >"$dir/stdin"
    : >"$dir/err"
    echo "$case_name ($flavour)" >"$scratch/current"
    mapfile -d $'\036' -t arg_list < <(printf %s "$args")
    mapfile -d $'\036' -t env_list < <(printf %s "$env")
    case $pretend in
    '') pretend_list=(1 space) ;;
    $'\035') pretend_list=() ;;
    *) mapfile -d $'\036' -t pretend_list < <(printf %s "$pretend") ;;
    esac
    run_plainly && run_pretending
    rm -rf "$dir"
}

# ---- all of them, as one user

run_pass() {
    trap '' USR2 # a signal that the caller ignores
    failures=0 plain=0 pretended=0 token=$((RANDOM * 1000)) niceness=$(nice)
    mapfile -t limits < <(read_limits)
    local own_flavours
    while IFS=$'\037' read -r case_name program args env stdin status stdout stdout_rule own_flavours pretend \
        needs root_only writes; do
        [[ ! $root_only || ($as_uid == 0) ]] || continue
        program=${program:-$case_name}
        mapfile -d $'\036' -t flavour_list < <(printf %s "${own_flavours:-${flavours_of[$program]}}")
        for flavour in "${flavour_list[@]}"; do run_case; done
    done < <(awk -v kind=victim -v keys="name program args env stdin status stdout stdout_rule flavours pretend \
needs root_only writes" -f "$here/manifest.awk" "$here/manifest.toml")
    echo "selftest: $who: $plain plain runs, $pretended stale ones, $failures failures"
    [[ $failures == 0 ]]
}

[[ $# == 1 ]] || { echo "usage: selftest.sh OUTDIR" >&2; exit 2; }
all=$(mktemp -d)
trap 'rm -rf "$all"' EXIT
chmod 755 "$all"
declare -A flavours_of
while IFS=$'\037' read -r name flavours; do
    flavours_of[$name]=${flavours:-$'dynamic\036'}
done < <(awk -v kind=program -v keys="name flavours" -f "$here/manifest.awk" "$here/manifest.toml")

# Starts a pass in the background; an unprivileged user needs the programs where they can be read.
start_pass() { # who uid gid [prefix...]
    who=$1 as_uid=$2 as_gid=$3 scratch=$all/$1 unprivileged=
    shift 3
    prefix=("$@")
    [[ ${#prefix[@]} == 0 ]] || unprivileged=yes
    mkdir -m 755 "$scratch"
    run_pass <"/dev/null" &
    passes+=($!)
}

bin=$(cd "$1" && pwd)
passes=()
if [[ $(id -u) == 0 ]]; then
    cp -r "$bin" "$all/bin"
    chmod -R a+rX "$all/bin"
    bin=$all/bin
    start_pass root 0 0
    start_pass nobody 65534 65534 setpriv --reuid 65534 --regid 65534 --clear-groups
else
    start_pass "$(id -un)" "$(id -u)" "$(id -g)"
fi
result=0
for pass in "${passes[@]}"; do wait "$pass" || result=1; done
exit "$result"
