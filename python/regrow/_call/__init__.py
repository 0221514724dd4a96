"""A call in a process of its own.

order     what the process is told           future, calls   the caller's side: who waits, who serves, who is next
prologue  what comes before the function     polling         the thread that serves calls that nobody else serves
worker    inside the process                 poller, lives   what that thread waits for; ends and forks
answer    what it has said
"""
