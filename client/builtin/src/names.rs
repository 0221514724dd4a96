//! The programs that there is a builtin for: small ones that scripts start often. None that is a builtin of bash's own, that starts other
//! programs, or that runs for long.

use core::ffi::c_int;

use crate::bash::{Builtin, Words};
use crate::run::run;

macro_rules! builtins {
    ($($symbol:literal $name:literal)*) => {
        $(const _: () = {
            /// # Safety
            /// Called by bash, with the words behind the name.
            unsafe extern "C" fn function(words: *const Words) -> c_int {
                run($name, words)
            }
            #[used]
            #[unsafe(export_name = $symbol)]
            static BUILTIN: Builtin = Builtin::new($name, function);
        };)*
    };
}

builtins! {
    "awk_struct" c"awk"             "basename_struct" c"basename"   "cat_struct" c"cat"             "chmod_struct" c"chmod"
    "cksum_struct" c"cksum"         "cmp_struct" c"cmp"             "comm_struct" c"comm"           "cp_struct" c"cp"
    "cut_struct" c"cut"             "date_struct" c"date"           "diff_struct" c"diff"           "dirname_struct" c"dirname"
    "expr_struct" c"expr"           "file_struct" c"file"           "fold_struct" c"fold"           "gawk_struct" c"gawk"
    "git_struct" c"git"             "grep_struct" c"grep"           "head_struct" c"head"           "hostname_struct" c"hostname"
    "id_struct" c"id"               "install_struct" c"install"     "join_struct" c"join"           "jq_struct" c"jq"
    "ln_struct" c"ln"               "ls_struct" c"ls"               "m4_struct" c"m4"               "mawk_struct" c"mawk"
    "md5sum_struct" c"md5sum"       "mkdir_struct" c"mkdir"         "mktemp_struct" c"mktemp"       "mv_struct" c"mv"
    "nl_struct" c"nl"               "nproc_struct" c"nproc"         "od_struct" c"od"               "paste_struct" c"paste"
    "perl_struct" c"perl"           "python3_struct" c"python3"     "readlink_struct" c"readlink"   "realpath_struct" c"realpath"
    "rm_struct" c"rm"               "rmdir_struct" c"rmdir"         "sed_struct" c"sed"             "seq_struct" c"seq"
    "sha1sum_struct" c"sha1sum"     "sha256sum_struct" c"sha256sum" "sort_struct" c"sort"           "stat_struct" c"stat"
    "tac_struct" c"tac"             "tail_struct" c"tail"           "tee_struct" c"tee"             "touch_struct" c"touch"
    "tr_struct" c"tr"               "tsort_struct" c"tsort"         "uname_struct" c"uname"         "uniq_struct" c"uniq"
    "wc_struct" c"wc"               "whoami_struct" c"whoami"
}
