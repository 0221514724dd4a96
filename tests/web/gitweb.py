"""A small repository, and gitweb as Debian packages it, served in the ways that are compared."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import servers

CGI = "/usr/share/gitweb/gitweb.cgi"
STATIC = "/usr/share/gitweb/static"
NAME = "orchard.git"


def run(command: list[str], home: Path, second: int = 0) -> None:
    """Runs a command of git's as the servers' user, whose repository it is, at a time that is always the same."""
    who = {"NAME": "Orchard Keeper", "EMAIL": "keeper@orchard.example", "DATE": f"{1700000000 + second} +0000"}
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    environment.update({f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()})
    whose = servers.owner()
    as_root = os.geteuid() == 0 and whose.pw_uid != 0
    subprocess.run(
        command,
        check=True,
        env=environment,
        cwd=home,
        capture_output=True,
        user=whose.pw_uid if as_root else None,
        group=whose.pw_gid if as_root else None,
        extra_groups=[] if as_root else None,
    )


class Orchard:
    """A repository of four commits on two branches with a tag, and gitweb's configuration for it."""

    def __init__(self, place: servers.Place) -> None:
        self.projects = place.folder("projects")
        self.work = place.folder("work")
        run(["git", "init", "--quiet", "--initial-branch=main", "tree"], self.work)
        tree = self.work / "tree"
        steps = [
            ("trees.txt", "apple\npear\n", "Plant two trees"),
            ("tools/ladder.c", '#include <stdio.h>\n\nint main(void)\n{\n\tputs("<up> & down");\n}\n', "A ladder"),
            ("trees.txt", "apple\nquince\nplum\n", "Replace the pear: größer & besser"),
            ("binary.dat", "\x00\x01\x02" * 100, "What is no text"),
        ]
        for second, (name, text, message) in enumerate(steps):
            self.write(tree / name, text)
            run(["git", "-C", str(tree), "add", "--all"], self.work)
            run(["git", "-C", str(tree), "commit", "--quiet", "--message", message], self.work, second * 3600)
        run(["git", "-C", str(tree), "tag", "--annotate", "--message", "The harvest", "v1.0"], self.work, 86400)
        run(["git", "-C", str(tree), "branch", "winter", "HEAD~2"], self.work)
        run(["git", "clone", "--quiet", "--bare", str(tree), str(self.projects / NAME)], self.work)
        run(["git", "-C", str(self.projects / NAME), "config", "gitweb.owner", "Orchard Keeper"], self.work)
        self.write(self.projects / NAME / "description", "Trees and what is done to them\n")
        self.config = place.root / "gitweb.conf"
        self.config.write_text(
            f'$projectroot = "{self.projects}";\n$git_temp = "{self.work}";\n@stylesheets = ("/static/gitweb.css");\n'
            '$javascript = "/static/gitweb.js";\n$logo = "/static/git-logo.png";\n$favicon = "/static/git-favicon.png";\n'
            "$feature{'blame'}{'default'} = [1];\n$feature{'snapshot'}{'default'} = ['tgz'];\n"
            "$feature{'javascript-timezone'}{'default'} = ['utc', 'gitweb_tz', 'datetime'];\n"
        )

    def write(self, path: Path, text: str) -> None:
        """Writes a file that the servers' user owns."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if os.geteuid() == 0:
            for one in (path.parent, path):
                os.chown(one, servers.owner().pw_uid, servers.owner().pw_gid)

    def commit(self, name: str) -> str:
        """The full name of a commit."""
        command = ["git", "-c", "safe.directory=*", "-C", str(self.projects / NAME), "rev-parse", name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def apache_lines(port: int, handler: str, config: Path) -> list[str]:
    """What Apache needs to serve gitweb at `/gitweb`, as the package's own configuration does it."""
    return [
        f"Listen 127.0.0.1:{port}",
        f"<VirtualHost 127.0.0.1:{port}>",
        f'SetEnv GITWEB_CONFIG "{config}"',
        f'ScriptAlias /gitweb "{CGI}"',
        '<Directory "/usr/share/gitweb">',
        "Require all granted",
        "Options +ExecCGI +FollowSymLinks",
        f'SetHandler "{handler}"',
        "</Directory>",
        "</VirtualHost>",
    ]


def nginx_lines(port: int, address: str, config: Path) -> list[str]:
    """What nginx needs to serve gitweb at `/gitweb`, and the files of its pages."""
    return [
        "server {",
        f"listen 127.0.0.1:{port};",
        "server_name 127.0.0.1;",
        "types { text/css css; application/javascript js; image/png png; }",
        f"location /static/ {{ alias {STATIC}/; }}",
        "location /gitweb {",
        'fastcgi_split_path_info "^(/gitweb)(/.*)?$";',
        "include /etc/nginx/fastcgi_params;",
        f"fastcgi_param SCRIPT_FILENAME {CGI};",
        "fastcgi_param PATH_INFO $fastcgi_path_info;",
        f"fastcgi_param GITWEB_CONFIG {config};",
        f"fastcgi_pass {address};",
        "}",
        "}",
    ]
