// cairn ls, stat, mkdir, mv, rm, ln.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/context.h"
#include "client/cli/paths.h"
#include "client/cli/text.h"
#include "format/base/status.h"
#include "format/path/names.h"

namespace cairn::client::cli {

using nlohmann::json;

namespace {

const char* TypeName(EntryType type) {
  switch (type) {
    case EntryType::kDirectory:
      return "directory";
    case EntryType::kSymlink:
      return "symlink";
    case EntryType::kFile:
      return "file";
  }
  return "?";
}

std::string ModeText(const Stat& stat) {
  std::string text = stat.type == EntryType::kDirectory ? "d"
                     : stat.type == EntryType::kSymlink ? "l"
                                                        : "-";
  for (int shift = 6; shift >= 0; shift -= 3) {
    const uint32_t bits = stat.mode >> shift;
    text += (bits & 4) != 0 ? 'r' : '-';
    text += (bits & 2) != 0 ? 'w' : '-';
    text += (bits & 1) != 0 ? 'x' : '-';
  }
  return text;
}

json ToJson(const std::string& name, const Stat& stat) {
  json entry = {{"name", name},
                {"type", TypeName(stat.type)},
                {"inode", stat.inode},
                {"size", stat.size_bytes},
                {"nlink", stat.nlink},
                {"uid", stat.uid},
                {"gid", stat.gid},
                {"mtime_ns", stat.mtime_ns},
                {"ctime_ns", stat.ctime_ns},
                {"mode", absl::StrFormat("%04o", stat.mode)}};
  if (stat.type == EntryType::kSymlink) entry["target"] = stat.symlink;
  return entry;
}

std::string LongLine(const std::string& name, const Stat& stat) {
  std::string line =
      absl::StrFormat("%s %3d %6d %6d %14d %s %s", ModeText(stat), stat.nlink,
                      stat.uid, stat.gid, stat.size_bytes,
                      HumanTime(stat.mtime_ns), format::EscapeForDisplay(name));
  if (stat.type == EntryType::kSymlink) {
    absl::StrAppend(&line, " -> ", format::EscapeForDisplay(stat.symlink));
  }
  return line;
}

struct NameArguments {
  std::vector<std::string> paths;
  bool is_long = false;
  bool parents = false;
  bool recursive = false;
  bool force = false;
  bool no_replace = false;
  bool symbolic = false;
};

void PrintEntry(const Context& context, bool is_long, const std::string& name,
                const Stat& stat) {
  if (context.json) {
    PrintJson(ToJson(name, stat));
  } else if (is_long) {
    std::printf("%s\n", LongLine(name, stat).c_str());
  } else {
    std::printf("%s\n", format::EscapeForDisplay(name).c_str());
  }
}

absl::Status ListPath(const Context& context, const NameArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  const std::string path =
      StripPrefix(arguments.paths.empty() ? "/" : arguments.paths[0]);
  CAIRN_ASSIGN_OR_RETURN(const Stat stat, cluster->GetStat(path));
  if (stat.type != EntryType::kDirectory) {
    PrintEntry(context, arguments.is_long, path, stat);
    return absl::OkStatus();
  }
  return cluster->List(path, [&](const DirectoryEntry& entry) {
    PrintEntry(context, arguments.is_long, entry.name, entry.stat);
    return true;
  });
}

absl::Status ShowStat(const Context& context, const NameArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  for (const std::string& argument : arguments.paths) {
    const std::string path = StripPrefix(argument);
    CAIRN_ASSIGN_OR_RETURN(const Stat stat, cluster->GetStat(path));
    if (context.json) {
      PrintJson(ToJson(path, stat));
      continue;
    }
    std::printf(
        "%s\n  %s, inode %llu, %llu bytes, mode %04o (%s), "
        "%u links, uid %u, gid %u\n  modified %s, changed %s\n",
        format::EscapeForDisplay(path).c_str(), TypeName(stat.type),
        static_cast<unsigned long long>(stat.inode),
        static_cast<unsigned long long>(stat.size_bytes), stat.mode,
        ModeText(stat).c_str(), stat.nlink, stat.uid, stat.gid,
        HumanTime(stat.mtime_ns).c_str(), HumanTime(stat.ctime_ns).c_str());
  }
  return absl::OkStatus();
}

absl::Status MakeDirectories(const Context& context,
                             const NameArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  for (const std::string& path : arguments.paths) {
    CAIRN_RETURN_IF_ERROR(
        cluster->MakeDirectory(StripPrefix(path), arguments.parents));
  }
  return absl::OkStatus();
}

absl::Status Move(const Context& context, const NameArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  const std::string from = StripPrefix(arguments.paths[0]);
  CAIRN_ASSIGN_OR_RETURN(
      const std::string to,
      IntoDirectory(cluster.get(), StripPrefix(arguments.paths[1]), from));
  return cluster->Rename(from, to, arguments.no_replace);
}

absl::Status Remove(const Context& context, const NameArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  for (const std::string& argument : arguments.paths) {
    const std::string path = StripPrefix(argument);
    CAIRN_ASSIGN_OR_RETURN(const std::optional<Stat> stat, cluster->Find(path));
    if (!stat.has_value()) {
      if (arguments.force) continue;
      return absl::NotFoundError(
          absl::StrCat(format::EscapeForDisplay(path), ": not found"));
    }
    if (stat->type == EntryType::kDirectory && !arguments.recursive) {
      return absl::FailedPreconditionError(
          absl::StrCat(format::EscapeForDisplay(path),
                       ": is a directory; remove it and all in it with rm -r"));
    }
    CAIRN_RETURN_IF_ERROR(cluster->RemoveAll(path, nullptr));
  }
  return absl::OkStatus();
}

absl::Status MakeLink(const Context& context, const NameArguments& arguments) {
  CAIRN_ASSIGN_OR_RETURN(auto cluster, context.Connect());
  const std::string to = StripPrefix(arguments.paths[1]);
  if (arguments.symbolic) return cluster->Symlink(arguments.paths[0], to);
  return cluster->Link(StripPrefix(arguments.paths[0]), to);
}

using Command = absl::Status (*)(const Context&, const NameArguments&);

CLI::App* Add(CLI::App* app, Context* context,
              std::shared_ptr<NameArguments> arguments, const char* name,
              const char* help, const char* footer, Command command) {
  auto* sub = app->add_subcommand(name, help);
  sub->footer(footer);
  sub->callback([context, arguments, command] {
    context->run = [context, arguments, command] {
      return command(*context, *arguments);
    };
  });
  return sub;
}

}  // namespace

void AddNameCommands(CLI::App* app, Context* context) {
  auto a = std::make_shared<NameArguments>();
  auto* ls = Add(app, context, a, "ls", "List a directory",
                 "Examples:\n  cairn ls -l /data\n", ListPath);
  ls->add_option("path", a->paths, "Default: /")->expected(0, 1);
  ls->add_flag("-l,--long", a->is_long, "With mode, owner, size and time");
  auto* stat =
      Add(app, context, a, "stat", "Everything about a name", "", ShowStat);
  stat->add_option("path", a->paths)->required();
  auto* mkdir = Add(app, context, a, "mkdir", "Make directories",
                    "Examples:\n  cairn mkdir -p /data/a/b\n", MakeDirectories);
  mkdir->add_option("path", a->paths)->required();
  mkdir->add_flag("-p,--parents", a->parents, "Make missing parents too");
  auto* mv = Add(app, context, a, "mv", "Rename, atomically",
                 "Examples:\n  cairn mv /data/new /data/current\n", Move);
  mv->add_option("paths", a->paths, "FROM TO")->required()->expected(2);
  mv->add_flag("-n,--no-replace", a->no_replace, "Fail if TO exists");
  auto* rm = Add(app, context, a, "rm", "Remove files; -r: directories too",
                 "Examples:\n  cairn rm -r /ckpt/run1/step-100\n", Remove);
  rm->add_option("path", a->paths)->required();
  rm->add_flag("-r,--recursive", a->recursive,
               "Remove directories and checkpoint sets with all they hold");
  rm->add_flag("-f,--force", a->force, "Absent names are no error");
  auto* ln =
      Add(app, context, a, "ln", "Make a hard link, or -s a symlink",
          "Examples:\n  cairn ln -s step-100 /ckpt/run1/best\n", MakeLink);
  ln->add_option("paths", a->paths, "FROM TO")->required()->expected(2);
  ln->add_flag("-s,--symbolic", a->symbolic, "FROM is any text");
}

}  // namespace cairn::client::cli
