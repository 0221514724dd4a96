#!/bin/sh
# The smallest script that there is.
echo 'Content-Type: text/plain'
echo
echo "hello by $REQUEST_METHOD"
