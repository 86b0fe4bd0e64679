#!/bin/sh
fresnel-tui star 20261123-140547-first-b6c6
# failed: fresnel-tui undelete last
