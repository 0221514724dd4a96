#!/bin/sh
echo "run from the tree: $*"
