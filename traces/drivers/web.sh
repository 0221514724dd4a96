#!/usr/bin/env bash
# A web server that runs CGI scripts, and a client that asks for their pages: what `traces/web-1000.csv` is recorded from.
#
# lighttpd starts a process for every request. The scripts are of three kinds, as small sites have them: perl alone, a shell
# that calls perl (the way of the papers' figure 5), and a shell that calls the ordinary tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
site=$(mktemp --directory /tmp/regrow-web.XXXXXX)
port=${PORT:-8642}
trap 'rm -rf "$site"' EXIT

mkdir "$site/www"
printf '%s\n' 4711 >"$site/counter"
seq 1 200 | sed 's/.*/entry & of the guest book/' >"$site/guests"

# Reads a value from a file and shows it: the CGI program of the papers.
cat >"$site/www/counter.pl" <<'PERL'
use strict; use warnings;
open(my $file, '<', "$ENV{SITE}/counter") or die; my $count = <$file>; chomp $count;
print "Content-Type: text/html\r\n\r\n<p>$count</p>\n";
PERL
cat >"$site/www/guests.pl" <<'PERL'
use strict; use warnings;
my ($page) = ($ENV{QUERY_STRING} // '') =~ /(\d+)/; $page //= 0;
open(my $file, '<', "$ENV{SITE}/guests") or die; my @guests = <$file>;
print "Content-Type: text/html\r\n\r\n<ul>", (map { "<li>$_" } grep { defined } @guests[$page * 10 .. $page * 10 + 9]), "</ul>\n";
PERL
cat >"$site/www/page.sh" <<'SHELL'
printf 'Content-Type: text/html\r\n\r\n'
perl -e 'open(F, "<", "$ENV{SITE}/counter") or die; print "<p>", <F>, "</p>\n"'
SHELL
cat >"$site/www/search.sh" <<'SHELL'
printf 'Content-Type: text/plain\r\n\r\n'
grep "entry ${QUERY_STRING:-1}" "$SITE/guests" | sort | head -n 5
date -u
SHELL
cat >"$site/lighttpd.conf" <<CONF
server.document-root = "$site/www"
server.bind = "127.0.0.1"
server.port = $port
server.modules = ("mod_cgi", "mod_setenv")
server.errorlog = "$site/errors"
setenv.add-environment = ("SITE" => "$site", "PATH" => "/usr/bin:/bin", "REGROW_SITES" => "${REGROW_SITES:-}")
cgi.assign = (".pl" => "/usr/bin/perl", ".sh" => "/bin/sh")
CONF

/usr/sbin/lighttpd -D -f "$site/lighttpd.conf" &
server=$!
perl "$here/requests.pl" "$port" "${REQUESTS:-700}"
kill "$server"
wait "$server" || true
