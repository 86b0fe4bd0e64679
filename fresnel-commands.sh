#!/bin/sh
fresnel-tui star 20261123-140912-first-0000
# failed: fresnel-tui undelete last
