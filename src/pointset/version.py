"""The version, for the parts that record it; they may not import the whole package."""

VERSION = "0.1.0"
