"""Every statement of the paper as an experiment with a verdict: ``check_statements(all_statements())``."""

from __future__ import annotations

from pointset.paper.theorems.statement import Finding, Statement, Verdict, all_statements, check_statements

__all__ = ["Finding", "Statement", "Verdict", "all_statements", "check_statements"]
