#!/usr/bin/env python3
# ===- cli_docs.py - man pages and completions from --help -----------------=== #
#
# Part of the mpcomm project, under the Apache License v2.0 with LLVM
# Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""Writes a man page and completions for bash and zsh for each tool, from what its
--help prints: no option is listed a second time anywhere.

The tools print in the manner of CLI11, of LLVM and of argparse. help2man reads only the
first, so what is read is kept as a model here, of which all three are written.
"""

import argparse
import gzip
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

# Text of an option that starts in a column of its own is further right than this.
DEEPEST_OPTION = 8


@dataclass
class Option:
    flags: list  # empty: a positional argument
    value: str = ""
    choices: list = field(default_factory=list)
    text: list = field(default_factory=list)  # lines
    depth: int = 0  # of indentation: options of a pass are deeper than the pass

    @property
    def help(self):
        return " ".join(self.text)

    @property
    def head(self):
        sign = "=" if self.flags and self.flags[-1].startswith("--") else " "
        named = ", ".join(self.flags)
        return (named + sign if named and self.value else named) + self.value

    @property
    def takes_file(self):
        word = self.value.lower()
        return any(w in word for w in ("file", "folder")) or word == "out"


@dataclass
class Group:
    title: str
    intro: list = field(default_factory=list)
    options: list = field(default_factory=list)


@dataclass
class Tool:
    name: str
    about: list = field(default_factory=list)  # paragraphs' lines
    usage: str = ""
    groups: list = field(default_factory=list)
    epilog: list = field(default_factory=list)

    @property
    def summary(self):
        text = re.sub(r"^[\w-]+: ", "", " ".join("\n".join(self.about).split("\n\n")[0].split()))
        text = re.split(r"\.(?: |$)", text)[0]
        return text[:1].lower() + text[1:]

    @property
    def options(self):
        """Those of the command line itself, without those of passes."""
        for group in self.groups:
            least = min((o.depth for o in group.options), default=0)
            yield from (o for o in group.options if o.flags and o.depth == least)


def read_option(line, has_positionals):
    """The option that a line begins, or None."""
    depth = len(line) - len(line.lstrip())
    text = line.strip()
    if not 0 < depth <= DEEPEST_OPTION or not (text.startswith("-") or has_positionals):
        return None
    head, _, rest = re.sub(r"\s+- +|\s{2,}(?:-\s+)?", "\0", text, count=1).partition("\0")
    rest = re.sub(r"\s+-$", "", rest)
    option = Option([], text=[rest] if rest else [], depth=depth)
    if not text.startswith("-"):
        option.value = head
        return option
    for part in re.split(r",\s*(?=-)", re.sub(r"\s+-$", "", head)):
        match = re.match(r"(--?[\w?][\w-]*)[ =]?(.*)", part)
        if not match:
            return None
        option.flags.append(match[1])
        option.value = match[2].strip("<>") or option.value
    if re.fullmatch(r"\{?[\w.-]+([|,][\w.-]+)+\}?", option.value) and (
            "|" in option.value or "{" in option.value):
        option.choices = re.split(r"[|,]", option.value.strip("{}"))
    return option


def parse(name, text):
    """What --help printed."""
    tool = Tool(name)
    group = None
    in_usage = False
    lines = text.expandtabs().splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        usage = re.match(r"usage:\s*(.*)", line, re.IGNORECASE)
        if usage and not group:
            tool.usage, in_usage = usage[1], True
            continue
        if in_usage and line.startswith(" "):
            tool.usage += " " + line.strip()
            continue
        in_usage = False
        if line == "OPTIONS:":
            continue
        # A sentence of the description may end so too; then more text follows.
        if re.match(r"\S.*:$", line) and following[:1] in ("", " "):
            group = Group(line[:-1])
            tool.groups.append(group)
        elif not group:
            tool.about.append(re.sub(r"^OVERVIEW: ", "", line))
        elif line and not line.startswith(" "):
            tool.epilog.append(line)
        elif not group.options and any(group.intro[-1:]):  # commands of an example
            group.intro.append(line)
        elif option := read_option(line, group.title.lower().startswith("positional")):
            group.options.append(option)
        elif choice := re.match(r"\s+=(\S+)\s+-\s+(.*)", line):
            if group.options:
                last = group.options[-1]
                if last.text and not last.choices:
                    last.text[-1] += "."
                last.choices.append(choice[1])
                last.text.append(f"{choice[1]}: {choice[2]}.")
        elif line.strip() and group.options:
            group.options[-1].text.append(line.strip())
        elif line.strip() or group.intro:
            group.intro.append(line)
    tool.groups = [g for g in tool.groups if g.options or any(g.intro)]
    return tool


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def paragraphs(lines):
    """Running text is filled; text that is indented stays as it is."""
    for block in "\n".join(lines).strip("\n").split("\n\n"):
        rows = [row for row in block.splitlines() if row.strip()]
        if rows and all(row.startswith(" ") for row in rows):
            yield from [".PP", ".nf", *map(roff, rows), ".fi"]
        elif rows:
            yield from [".PP", roff(" ".join(row.strip() for row in rows))]


def man_page(tool, version, others):
    out = [f'.TH {tool.name.upper()} 1 "" "mpcomm {version}" "mpcomm"', ".SH NAME",
           f"{tool.name} \\- {roff(tool.summary)}", ".SH SYNOPSIS", roff(tool.usage or tool.name),
           ".SH DESCRIPTION", *paragraphs(tool.about), ".SH OPTIONS"]
    for group in tool.groups:
        if group.options:
            out += [f".SS {roff(group.title)}", *paragraphs(group.intro)]
        depth = min((o.depth for o in group.options), default=0)
        for option in group.options:
            nested = option.depth > depth
            out += [".RS"] * nested + [".TP", f"\\fB{roff(option.head)}\\fR",
                                       roff(option.help)] + [".RE"] * nested
    for group in tool.groups:
        if not group.options:
            out += [f".SH {roff(group.title.upper())}", *paragraphs(group.intro)]
    for line in tool.epilog:
        title = re.match(r"([A-Z][a-z ]+): (.*)", line)
        out += [f".SH {title[1].upper()}", roff(title[2])] if title else [".PP", roff(line)]
    out += [".SH SEE ALSO",
            ", ".join(f"\\fB{roff(o)}\\fR(1)" for o in others if o != tool.name)]
    return "\n".join(line for line in out if line) + "\n"


BASH = """\
# bash completion of {name}, made from what {name} --help prints
_{function}() {{
  local cur prev words cword split
  _init_completion -s || return
  case $prev in
{cases}  esac
  $split && return
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W '{flags}' -- "$cur"))
    return
  fi
  _filedir
}} && complete -F _{function} {name}
"""


def bash(tool):
    cases = {}
    for option in tool.options:
        if option.choices:
            action = f"COMPREPLY=($(compgen -W '{' '.join(option.choices)}' -- \"$cur\"))"
        elif option.takes_file:
            action = "_filedir" + (" -d" if "folder" in option.value.lower() else "")
        elif option.value:
            action = ":"
        else:
            continue
        cases.setdefault(action, []).extend(option.flags)
    return BASH.format(
        name=tool.name, function=tool.name.replace("-", "_"),
        cases="".join(f"    {'|'.join(flags)}) {action}; return ;;\n"
                      for action, flags in cases.items()),
        flags=" ".join(flag for option in tool.options for flag in option.flags))


def zsh(tool):
    def quoted(text):
        return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")

    lines = []
    for option in tool.options:
        rest = f"[{quoted(option.help)}]"
        if option.value:
            action = (f"({' '.join(option.choices)})" if option.choices else
                      "_files -/" if "folder" in option.value.lower() else
                      "_files" if option.takes_file else " ")
            rest += f":{quoted(option.value)}:{action}"
        many = "*" if "repeated" in option.help else (
            f"({' '.join(option.flags)})" if len(option.flags) > 1 else "")
        for flag in option.flags:
            sign = "=" if option.value and flag.startswith("--") else ""
            lines.append(f"  '{many}{flag}{sign}{rest}' \\\n")
    return (f"#compdef {tool.name}\n# made from what {tool.name} --help prints\n"
            f"_arguments \\\n{''.join(lines)}  '*:file:_files'\n")


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)


def help_of(command):
    """What a tool prints, or None with a warning: an importer without NumPy says
    nothing."""
    try:
        result = subprocess.run([command, "--help"], stdin=subprocess.DEVNULL, text=True,
                                capture_output=True, timeout=120,
                                env={**os.environ, "COLUMNS": "100", "LC_ALL": "C.UTF-8"})
        if result.returncode == 0:
            return result.stdout
        reason = (result.stderr.strip().splitlines() or ["it fails"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    print(f"cli_docs.py: warning: no man page of {command}: {reason}", file=sys.stderr)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--output", required=True, metavar="FOLDER",
                   help="where man/, bash-completion/ and zsh/ are written")
    p.add_argument("--version", required=True, metavar="TEXT", help="version of the tools")
    p.add_argument("tools", nargs="+", metavar="TOOL", help="path of a tool")
    arguments = p.parse_args()
    names = sorted(map(os.path.basename, arguments.tools))
    for command in arguments.tools:
        name = os.path.basename(command)
        text = help_of(command)
        if text is None:
            continue
        tool = parse(name, text)
        if not any(tool.options):
            sys.exit(f"cli_docs.py: error: found no options in what {command} --help prints")
        page = man_page(tool, arguments.version, names).encode()
        write(os.path.join(arguments.output, "man/man1", name + ".1.gz"),
              gzip.compress(page, mtime=0))
        write(os.path.join(arguments.output, "bash-completion/completions", name),
              bash(tool).encode())
        write(os.path.join(arguments.output, "zsh", "_" + name), zsh(tool).encode())


if __name__ == "__main__":
    main()
