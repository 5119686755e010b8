"""Passes from Relay to Relay, one file each; `compiler.pipelines` puts them in order."""
