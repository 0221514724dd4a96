#!/usr/bin/env bash
# Has LibreOffice print a document, without a window: `office.sh FOLDER calc|draw|writer`.
set -euo pipefail
folder=$1 kind=$2
cd "$folder"
case $kind in
calc)
    document=table.csv
    seq 1 5000 | awk '{ print $1 ",row " $1 "," $1 * 7 % 97 "," $1 / 3 }' >$document
    ;;
draw)
    document=drawing.svg
    {
        printf '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="600">\n'
        seq 1 400 | awk '{ printf "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"#%06x\"/>\n", $1 * 37 % 800, $1 * 53 % 600, 5 + $1 % 20, $1 * 40503 % 16777216 }'
        printf '</svg>\n'
    } >$document
    ;;
writer)
    document=letter.txt
    seq 1 2000 | sed 's/.*/Line & of a letter that goes on for many pages./' >$document
    ;;
*)
    echo "usage: office.sh FOLDER calc|draw|writer" >&2
    exit 2
    ;;
esac
rm -f "${document%.*}.pdf"
soffice "--$kind" --headless "-env:UserInstallation=file://$folder/office" --convert-to pdf "$document" >/dev/null 2>&1
[ -s "${document%.*}.pdf" ]
