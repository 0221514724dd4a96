"""A call in a process of its own.

order     what the process is told           future, calls   the caller's side: who waits, who serves, who is next
worker    inside the process                 poller, lives   what the thread of an executor waits for; ends and forks
answer    what it has said
"""
