# Notes the pid of the script that sources it, so that a test can see whether the process is gone.
# shellcheck shell=sh
echo $$ >>"$REGROW_TEST_NOTES/pids"
