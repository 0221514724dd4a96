"""What the image of a worker is told, so that its app is the worker's.

An image begins as an interpreter of its own, and not as a copy of the worker. It imports the module that the app was found in,
as the command line did, and every module with tasks that the worker knows of; then it takes over the settings that were
changed since. An app that no module holds travels as a pickle, as Celery itself does it where it does not fork.
"""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing import spawn
from typing import Any, NamedTuple, Optional

#: Packages whose modules know every app, and are not where an app is made.
_NOT_HOMES = ("celery", "kombu", "billiard", "regrow")
#: The names that the main module has.
_MAIN = ("__main__", "__mp_main__")


class Setup(NamedTuple):
    """Plain data alone: it is loaded before anything is imported."""

    hostname: str
    #: `sys.path`, and the directory that the app is looked for in as well.
    path: list[str]
    directory: str
    #: The module and the attribute that the app is; None where no module holds it.
    home: Optional[tuple[str, str]]
    #: A pickle of the app, where no module holds it.
    pickled: Optional[bytes]
    #: What `multiprocessing` tells a process of the main module, where the app is there.
    main: Optional[dict[str, Any]]
    #: The modules that have tasks.
    include: list[str]
    #: The classes of tasks that are registered as such: the module and the name of each, by the name of the task.
    classes: dict[str, tuple[str, str]]
    #: Settings that were changed since the app was configured, each as a pickle.
    changes: dict[str, bytes]
    #: Whether log lines have colours.
    colorize: bool


def setup_of(app: Any, hostname: str) -> Setup:
    """What an image is told of an app."""
    home = _home_of(app)
    main = None
    if home is not None and home[0] in _MAIN:
        main = spawn.get_preparation_data("regrow")
        # Neither is for a file, and a kept interpreter stays where it is.
        del main["authkey"], main["dir"]
    return Setup(
        hostname=hostname,
        path=list(sys.path),
        directory=os.getcwd(),
        home=home,
        pickled=pickle.dumps(app) if home is None else None,
        main=main,
        include=[name for name in app.conf.include or () if name not in _MAIN],
        classes=_classes(app),
        changes=_changes(app, home is None),
        colorize=bool(app.log.supports_color(None, os.environ.get("CELERY_LOG_FILE") or None)),
    )


def _home_of(app: Any) -> Optional[tuple[str, str]]:
    """The module that holds an app, and under which name. Of several it is the one whose import began first, and the main
    module only where there is no other one."""
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] not in _NOT_HOMES]
    modules.sort(key=lambda one: one[0] in _MAIN)
    for name, module in modules:
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return name, attribute
    return None


def _classes(app: Any) -> dict[str, tuple[str, str]]:
    """The classes of the app's tasks that a module holds: an import of the module need not register them."""
    found = {}
    for name, task in list(app.tasks.items()):
        kind = type(task)
        module = kind.__module__
        is_home = module.partition(".")[0] not in _NOT_HOMES and module not in _MAIN
        if is_home and getattr(sys.modules.get(module), kind.__name__, None) is kind:
            found[name] = module, kind.__name__
    return found


def _changes(app: Any, is_pickled: bool) -> dict[str, bytes]:
    """Settings that the image would not have by itself."""
    names = set(app.conf.changes)
    if is_pickled:
        # The pickle has the object that the app was configured from, and not what was added to the defaults.
        names.update(*(mapping for mapping in app.conf.maps[:-1] if isinstance(mapping, dict)))
    kept = {}
    for name in names:
        try:
            kept[name] = pickle.dumps(app.conf[name])
        except Exception:
            # A value that does not travel was set by code of the app, which the image runs as well.
            continue
    return kept
