//! The cache: what is laid, what is used, what is refused, and what becomes of the program where there is no place.

use super::{chmod, forced, launch, places, script, text};
use crate::common::process::{Limit, is_root, limit};
use crate::common::{Ran, names_in, not_tried, run};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the image lies that is printed.
fn printed(cache: &Path, flags: &[&str]) -> PathBuf {
    let ran = run(&mut launch(cache, &[&["--print-image"], flags].concat())).exits(0);
    assert_eq!(ran.stderr, "");
    PathBuf::from(ran.stdout.strip_suffix('\n').unwrap())
}

const SAY: [&str; 4] = ["--", "sh", "-c", "echo \"started $LD_PRELOAD\""];

#[test]
fn an_image_is_laid_once_for_each_setting_for_its_user_alone() {
    let (_, cache) = places("laid");
    let image = printed(&cache, &[]);
    assert_eq!(image.parent().unwrap(), std::fs::canonicalize(&cache).unwrap().join("clockwise"));
    assert!(image.file_name().unwrap().to_str().unwrap().contains(env!("CARGO_PKG_VERSION")));
    for path in [&image, image.parent().unwrap()] {
        let there = std::fs::metadata(path).unwrap();
        assert_eq!(there.mode() & 0o7777, 0o700, "{}", path.display());
    }
    let inode = std::fs::metadata(&image).unwrap().ino();
    assert_eq!(printed(&cache, &["--order", "causal"]), image);
    assert_eq!(std::fs::metadata(&image).unwrap().ino(), inode, "laid anew");
    let relaxed = printed(&cache, &["--order", "relaxed"]);
    let short = printed(&cache, &["--max-age", "1ms"]);
    assert_eq!(names_in(image.parent().unwrap()).len(), 3);
    let [image, relaxed, short] = [image, relaxed, short].map(|path| std::fs::read(path).unwrap());
    assert!(image != relaxed && image != short && relaxed != short);
    let json = run(&mut launch(&cache, &["--print-image", "--format", "json"])).exits(0).json();
    assert!(Path::new(json["image"].as_str().unwrap()).is_file());
}

#[test]
fn a_mask_of_permissions_changes_nothing_about_what_is_laid() {
    let (_, cache) = places("umask");
    let script = "umask 0277; exec \"$0\" run --print-image";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_clockwise")]).env("XDG_CACHE_HOME", &cache);
    std::fs::create_dir_all(&cache).unwrap();
    let image = run(&mut command).exits(0).stdout;
    assert_eq!(std::fs::metadata(cache.join("clockwise")).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(std::fs::metadata(image.trim_end()).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn many_runs_at_once_all_work() {
    let (_, cache) = places("at_once");
    let started: Vec<_> = (0..20)
        .map(|_| {
            forced(&cache, &SAY).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let all: Vec<String> = started
        .into_iter()
        .map(|child| Ran::from(child.wait_with_output().unwrap()).exits(0).says_nothing().stdout)
        .collect();
    assert!(all[0].starts_with("started /") && all[0].ends_with(".so\n"), "{all:?}");
    assert!(all.iter().all(|said| *said == all[0]), "{all:?}");
    let names = names_in(&cache.join("clockwise"));
    assert_eq!(names.len(), 1, "{names:?}");
}

impl Ran {
    /// Checks that nothing went to standard error.
    #[track_caller]
    fn says_nothing(self) -> Self {
        assert_eq!(self.stderr, "");
        self
    }
}

#[test]
fn a_file_that_is_not_exactly_ours_is_refused() {
    let (folder, cache) = places("foreign");
    let image = printed(&cache, &[]);
    let ours = std::fs::read(&image).unwrap();
    let refused = |what: &str, part: &str| {
        for mut command in [launch(&cache, &["--print-image"]), forced(&cache, &SAY)] {
            run(&mut command).exits(2).says_only(&[text(&image), part, "remove it"]);
        }
        let _ = std::fs::remove_file(&image);
        assert!(printed(&cache, &[]) == image, "after {what}");
    };
    let mut changed = ours.clone();
    *changed.last_mut().unwrap() ^= 1;
    for (what, bytes) in [
        ("another byte", changed),
        ("a byte more", [&ours[..], b"\0"].concat()),
        ("a byte less", ours[..ours.len() - 1].to_vec()),
        ("nothing", Vec::new()),
    ] {
        std::fs::write(&image, bytes).unwrap();
        refused(what, "is not what this version lays there");
    }
    chmod(&image, 0o770);
    refused("a writable file", "can be written to by others");
    std::fs::remove_file(&image).unwrap();
    let elsewhere = folder.join("elsewhere");
    std::fs::write(&elsewhere, &ours).unwrap();
    symlink(&elsewhere, &image).unwrap();
    refused("a link", "is a symbolic link");
    std::fs::remove_file(&image).unwrap();
    assert!(Command::new("mkfifo").arg(&image).status().unwrap().success());
    refused("a pipe", "is not a plain file");
    if !is_root() {
        return not_tried("an image of somebody else", "only root may give files away");
    }
    std::os::unix::fs::chown(&image, Some(60_111), None).unwrap();
    refused("a foreign file", "belongs to somebody else");
}

#[test]
fn a_folder_that_is_not_the_user_s_alone_is_refused() {
    let (folder, cache) = places("folder");
    let own = cache.join("clockwise");
    let refused = |part: &str| {
        for args in [&SAY[..], &["--stats", "true"], &["--print-image"]] {
            let ran =
                run(&mut if args.len() == 1 { launch(&cache, args) } else { forced(&cache, args) });
            ran.exits(2).says_only(&[part, "XDG_CACHE_HOME"]);
        }
        // Without --force too: it is no matter of taste.
        if let Some(image) = std::fs::read_dir(&own).ok().and_then(|mut names| names.next()) {
            panic!("{image:?} was laid");
        }
    };
    std::fs::create_dir_all(&own).unwrap();
    for mode in [0o777, 0o720, 0o1777] {
        chmod(&own, mode);
        refused("can be written to by others");
    }
    std::fs::remove_dir(&own).unwrap();
    let elsewhere = folder.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &own).unwrap();
    refused("is a symbolic link");
    std::fs::remove_file(&own).unwrap();
    std::fs::write(&own, b"").unwrap();
    refused("is not a folder");
    std::fs::remove_file(&own).unwrap();
    std::fs::create_dir(&own).unwrap();
    chmod(&own, 0o700);
    chmod(&cache, 0o777);
    refused("can be written to by everybody");
    // As /tmp is: there nobody can take the folder away.
    chmod(&cache, 0o1777);
    printed(&cache, &[]);
    std::fs::remove_dir_all(&own).unwrap();
    chmod(&cache, 0o755);
    if !is_root() {
        return not_tried("a folder of somebody else", "only root may give folders away");
    }
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(60_111), None).unwrap();
    refused("belongs to somebody else");
    std::os::unix::fs::chown(&own, Some(0), None).unwrap();
    chmod(&own, 0o700);
    std::os::unix::fs::chown(&cache, Some(60_111), None).unwrap();
    refused("belongs to somebody else");
}

#[test]
fn in_somebody_elses_home_nothing_is_made_and_behind_a_group_nothing_is_trusted() {
    if !is_root() {
        return not_tried("another user's home", "only root can give folders away");
    }
    let (folder, _) = places("foreign");
    let home = folder.join("home");
    std::fs::create_dir_all(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(60_111), None).unwrap();
    let mut command = launch(&home, &["--print-image"]);
    let image = run(command.env_remove("XDG_CACHE_HOME").env("HOME", &home)).exits(0).stdout;
    assert!(!image.starts_with(text(&home)), "{image}");
    let refused = run(&mut launch(&home.join("cache"), &["--print-image"])).exits(2);
    assert!(refused.stderr.contains("belongs to somebody else"), "{}", refused.stderr);
    assert_eq!(names_in(&home), [""; 0]);
    let shared = folder.join("shared");
    std::fs::create_dir_all(shared.join("cache")).unwrap();
    std::os::unix::fs::chown(&shared, None, Some(60_112)).unwrap();
    chmod(&shared, 0o775);
    let refused = run(&mut launch(&shared.join("cache"), &["--print-image"])).exits(2);
    assert!(refused.stderr.contains("can be written to by a group"), "{}", refused.stderr);
}

#[test]
fn the_environment_names_the_folder() {
    let (folder, cache) = places("named");
    let image = |variables: &[(&str, &str)]| {
        let mut command = launch(&cache, &["--print-image"]);
        command.env_remove("XDG_CACHE_HOME").env_remove("HOME");
        command.envs(variables.iter().copied());
        run(&mut command).exits(0).stdout
    };
    let folder = std::fs::canonicalize(&folder).unwrap();
    let home = text(&folder);
    let in_home = format!("{home}/.cache/clockwise/");
    assert!(image(&[("HOME", home)]).starts_with(&in_home));
    assert!(image(&[("HOME", home), ("XDG_CACHE_HOME", "relative")]).starts_with(&in_home));
    let named = folder.join("named");
    let other = image(&[("HOME", home), ("XDG_CACHE_HOME", text(&named))]);
    assert!(other.starts_with(text(&named.join("clockwise"))), "{other}");
    // Where nothing is named, and where the loader would split the path.
    let uid = std::fs::metadata(&folder).unwrap().uid();
    let odd = ["a space", "a:colon", "$ORIGIN", "a\ttab"].map(|name| folder.join(name));
    let odd = odd.iter().map(|folder| text(folder)).chain(["", "relative"]);
    for name in odd {
        let place = image(&[("XDG_CACHE_HOME", name)]);
        let own = ["/tmp", "/var/tmp"].map(|tmp| format!("{tmp}/clockwise-{uid}/clockwise-"));
        assert!(own.iter().any(|own| place.starts_with(own)), "{name}: {place}");
    }
}

/// Runs a script in a mount namespace of its own, in which `/mnt` is mounted with these options.
fn mounted(what: &str, options: &str, script: &str) -> Option<Ran> {
    if !is_root() {
        not_tried(what, "only root may mount");
        return None;
    }
    let inside = |script: &str| {
        let script = format!("mount -t tmpfs -o {options} none /mnt && {script}");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_clockwise")]);
        command.env("XDG_CACHE_HOME", "/mnt/cache").env_remove("LD_PRELOAD").output()
    };
    match inside("true") {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            not_tried(what, String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Err(error) => {
            not_tried(what, &error.to_string());
            return None;
        }
    }
    Some(inside(script).unwrap().into())
}

/// The program is started plainly with a sentence, and not at all with `--force`.
fn starts_plainly(what: &str, options: &str, prepare: &str, part: &str) {
    let start = "sh -c 'echo \"started $LD_PRELOAD\"; exit 5'";
    for flags in ["", "--order relaxed --stats"] {
        let script = format!("{prepare} && exec \"$0\" run {flags} {start}");
        let Some(ran) = mounted(what, options, &script) else { return };
        assert_eq!(ran.stdout, "started \n", "{ran:?}");
        // A build without optimisation may have found before that nothing is to be gained.
        if !ran.stderr.contains("as cheap here") {
            assert!(
                ran.stderr.contains(part) && ran.stderr.contains("starts with the kernel's clock"),
                "{ran:?}"
            );
        }
        assert_eq!(ran.code, Some(5), "{ran:?}");
        let script = format!("{prepare} && exec \"$0\" run --force {flags} {start}");
        let Some(ran) = mounted(what, options, &script) else { return };
        ran.exits(2).says_only(&["/mnt/cache", part, "XDG_CACHE_HOME"]);
    }
}

#[test]
fn on_a_full_disk_a_program_is_started_plainly() {
    let fill = "mkdir -p /mnt/cache/clockwise && chmod 700 /mnt/cache/clockwise && \
                { cat /dev/zero > /mnt/cache/fill 2> /dev/null || true; }";
    starts_plainly("a full disk", "size=64k", fill, "its disk is full");
}

#[test]
fn in_a_read_only_cache_a_program_is_started_plainly() {
    let make = "mkdir -p /mnt/cache/clockwise && chmod 700 /mnt/cache/clockwise && mount -o remount,ro /mnt";
    starts_plainly("a read-only cache", "size=1m", make, "it is read-only");
    starts_plainly(
        "a read-only file system",
        "size=1m",
        "mount -o remount,ro /mnt",
        "cannot be used",
    );
}

#[test]
fn in_a_cache_that_is_mounted_noexec_a_program_is_started_plainly() {
    starts_plainly("a noexec mount", "size=1m,noexec", "true", "is mounted noexec");
}

#[test]
fn where_files_may_not_be_large_a_program_is_started_plainly() {
    let (_, cache) = places("limit");
    let mut command = forced(&cache, &SAY);
    limit(&mut command, Limit::FileSize(100));
    run(&mut command).exits(2).says_only(&["cannot be written to", "XDG_CACHE_HOME"]);
    // Neither the file nor a part of it.
    assert_eq!(names_in(&cache.join("clockwise")), [""; 0]);
}

#[test]
fn a_cache_that_may_not_be_written_to_is_told() {
    let (folder, _) = places("denied");
    let file = folder.join("file");
    script(&file, b"");
    // Root may write anywhere, but not below a file.
    run(&mut forced(&file, &SAY)).exits(2).says_only(&["cannot be used", "XDG_CACHE_HOME"]);
}
