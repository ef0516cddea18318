"""``pointset bundle``: sign trained models that are handed on, and check who has signed them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointset.cli.console import load_torch, reported_errors
from pointset.cli.options import Command, Commands
from pointset.text import counted, printable

EXAMPLES = """
[bold]Examples[/bold]
  pointset bundle keygen lab.key                       [dim]once[/dim]
  pointset bundle sign model.zip --key lab.key         [dim]or a run's folder[/dim]
  pointset bundle verify model.zip --key lab.key.pub   [dim]by who got it[/dim]
  pointset predict model.zip my.csv -o out.csv --require-signature lab.key.pub

[bold]What a signature says[/bold]
  Checksums in a bundle find damage; whoever changes a bundle can change them
  too. A signature (Ed25519) can be made with the private key alone. It says
  that the owner of the key has signed these very files, if you got the public
  key another way than the bundle: from a paper, a web page, by telephone.
  It does not say that the model is good.
"""
KEYGEN_EXAMPLES = """
[bold]Examples[/bold]
  pointset bundle keygen lab.key       [dim]the private key, and lab.key.pub[/dim]

[bold]Keep[/bold] lab.key to yourself: whoever has it can sign as you. Hand on lab.key.pub,
  or publish it where people look for you. Both are PEM, as openssl writes them.
"""
SIGN_EXAMPLES = """
[bold]Examples[/bold]
  pointset bundle sign model.zip --key lab.key
  pointset bundle sign runs/mine --key lab.key   [dim]the bundle of a run[/dim]

[bold]The signature[/bold] covers every file of the bundle and is written into it, as
  signature.json; one that is there is replaced. A bundle without its
  signature, or with another, still loads where none is required.
"""
VERIFY_EXAMPLES = """
[bold]Examples[/bold]
  pointset bundle verify model.zip --key lab.key.pub
  pointset bundle verify model.zip --key lab.key.pub && echo good

[bold]Exit code[/bold]
  0  signed with this key, and not changed since
  1  anything else; the message names the file
"""
_Bundle = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="A bundle (a folder or a .zip), or the folder of a run.")
]

app = typer.Typer(cls=Commands, rich_markup_mode="rich", no_args_is_help=True)


@app.callback(epilog=EXAMPLES)
def bundle() -> None:
    """Sign trained models that are handed on, and check who has signed them."""


@app.command(cls=Command, no_args_is_help=True, epilog=KEYGEN_EXAMPLES)
def keygen(
    keyfile: Annotated[
        Path, typer.Argument(metavar="KEYFILE", help="Where to write the private key; the public one is KEYFILE.pub.")
    ],
) -> None:
    """Make a pair of keys: a private one to sign with, and a public one to hand on."""
    with reported_errors():
        from pointset.training.bundle_signature import new_key, public_beside

        fingerprint = new_key(keyfile)
        typer.echo(f"{keyfile}: the private key; keep it to yourself")
        typer.echo(f"{public_beside(keyfile)}: the public key, to hand on; {fingerprint}")


@app.command(cls=Command, no_args_is_help=True, epilog=SIGN_EXAMPLES)
def sign(
    path: _Bundle,
    key: Annotated[Path, typer.Option("--key", metavar="KEYFILE", help="The private key.")],
) -> None:
    """Sign a bundle: write into it a signature of all its files."""
    with reported_errors():
        from pointset.training.bundle_signature import sign_bundle

        load_torch()  # what is signed is loaded first, to see that it can be
        signed = sign_bundle(path, key)
        typer.echo(f"{signed.path}: signed {_files(signed.files)} with {signed.key}")


@app.command(cls=Command, no_args_is_help=True, epilog=VERIFY_EXAMPLES)
def verify(
    path: _Bundle,
    key: Annotated[Path, typer.Option("--key", metavar="KEYFILE.pub", help="The public key of whoever signed it.")],
) -> None:
    """Check that a bundle is what the owner of a key has signed, without loading anything of it."""
    with reported_errors():
        from pointset.training.bundle_signature import verify_bundle

        signed = verify_bundle(path, key)
        typer.echo(f"{signed.path}: good signature of {_files(signed.files)} with {signed.key}")


def _files(names: tuple[str, ...]) -> str:
    return printable(f"{counted(len(names), 'file')} ({', '.join(names)})")
