"""A worker pool of Celery whose tasks run in processes of their own: the parts of `regrow.celery`.

setup      what the image is told: where the app is, and how the worker has set it up
engine     the worker's side of the processes: the one place that knows how Regrow starts them
child      the side of a task that runs in its process
rehearsal  what the image does ahead, so that no process does it for the first time
jobs       a task that the worker has given to the pool, its time limits and its outcome
loops      what waits for the ends of processes: the worker's event loop, or a thread
"""
