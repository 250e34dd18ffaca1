# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the tests: faults that are put into a copy of the collection, and must be found.

Each is a small change of one file, with the tests that have to fail because of it. Whoever changes
those lines changes the fault with them: it has to apply exactly once.

    make faults                        all
    make faults ARGS="keys claim"      those with one of these words in their names
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
_COPIED = ("changelogs", "meta", "plugins", "roles", "playbooks", "tests/lab", "tests/unit")
_FILES = ("galaxy.yml", "pytest.ini", "tests/__init__.py", "tests/conftest.py")
_FILES += ("tests/counting.py", "tests/leftovers.py", "tests/scheduling.py")
_FILES += ("tests/durations.txt",)
_SECONDS = 300
_PARALLEL = 2


@dataclass(frozen=True)
class Fault:
    """``old`` becomes ``new`` in ``file``, below plugins/module_utils/_fleet, or below plugins for
    what runs on the controller; ``tests`` are below tests/unit."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    @property
    def path(self) -> str:
        at_home = self.file.startswith(("action/", "plugin_utils/"))
        return f"plugins/{self.file}" if at_home else f"plugins/module_utils/_fleet/{self.file}"

    def applied(self, text: str) -> str:
        """The text with the fault; raises ValueError unless there is one place for it."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name!r}: {found} places for it in {self.path}, not one")
        return text.replace(self.old, self.new)


_CREATION = "provision/test_creation_crashes.py"
_PURGE = "purge/test_purge_crashes.py"
_RESTART = "restart/test_restart_crashes.py"
_OWNED = "storage/test_effects_own_files.py"
_KEYS = "keys/test_keys_crashes.py"
_RELOAD = "keys/test_key_reload_crashes.py"
_SEEDING = "seeding/test_seeding_crashes.py"
_MEANWHILE = "seeding/test_seeding_meanwhile.py"
_SETTLE = "migration/test_effects_settle.py"
_MOVE = "migration/test_effects_move.py"
_LOOK = "migration/test_read_candidates.py"
_JOURNAL = "bridge/test_journal_crashes.py"
_OF_PLAY = "plugins/test_action_fleet.py"
_ENVELOPE = "engine/test_envelope.py"

FAULTS = (
    Fault(
        "a clone is bound to the address of its source",
        "spec/leftover_rules.py",
        "*_own(LEFT, \"devices/interface/filterref/parameter[@name='IP'|'IPV6']\"),",
        "*_own(CARRIED, \"devices/interface/filterref/parameter[@name='IP'|'IPV6']\"),",
        "spec/test_leftovers.py::test_copy_lacks_addresses_and_serial_numbers_of_its_source",
    ),
    Fault(
        "a copy from an archive shares the memory of the VM that was saved",
        "spec/leftover_rules.py",
        '*_own(REFUSED, "devices/shmem", "devices/hostdev[@type=\'mdev\']"),',
        '*_lines(REFUSED, "devices/shmem", "devices/hostdev[@type=\'mdev\']"),',
        "restore/test_definition.py::test_copy_has_nothing_that_identifies_the_vm_that_was_saved",
    ),
    Fault(
        "a copy from an archive shares the state of a TPM",
        "spec/leftover_rules.py",
        '*_own(REFUSED, "devices/tpm/backend/source"),',
        '*_lines(REFUSED, "devices/tpm/backend/source"),',
        "restore/test_definition.py::test_copy_shares_no_state_with_the_vm_that_was_saved",
    ),
    Fault(
        "a VM is restarted elsewhere without the file that has its data",
        "restart/read.py",
        "problems += _data_blockers(data, card, here, present.values())",
        "pass",
        "restart/test_restart_crashes.py::"
        "test_vm_whose_data_are_in_another_file_is_taken_with_them_or_stays",
    ),
    Fault(
        "the disks of an imported VM keep the order of the list",
        "importing/ovf.py",
        'return (chosen, *controller, _address(item, "AddressOnParent"))',
        "return (chosen, 0, 0, 0)",
        "importing/test_importing.py::test_disks_are_in_the_order_in_which_the_guest_finds_them",
    ),
    Fault(
        "a VM whose storage has no locks is taken over on a person's word alone",
        "restart/decide.py",
        "problem = twice.get(name) or _unprotected(name, off, names, seen[name], stated)",
        "problem = twice.get(name)",
        "restart/test_decide.py::test_vm_without_locks_stays_where_only_person_says_off",
    ),
    Fault(
        "a proof has files of its hypervisor that an archive names",
        "verify/definition.py",
        'return program or tag in _OF_HOST or "{" in tag or "/" in (item.text or "")',
        'return program or "{" in tag',
        "verify/test_definition.py::test_hostile_path_is_not_in_the_proof",
    ),
    Fault(
        "nothing looks at the paths of a proof once more",
        "verify/definition.py",
        "    _require_own_paths(whole, places)\n",
        "",
        "verify/test_definition.py::test_what_was_not_cleaned_is_refused_by_the_last_look",
    ),
    Fault(
        "an action derives no lost hypervisor",
        "plugin_utils/base/_stages.py",
        "located.sort(answers, key, self.expected(), self.lost())",
        "located.sort(answers, key, self.expected(), [])",
        f"{_OF_PLAY}::test_lost_hypervisor_need_not_answer",
    ),
    Fault(
        "an action derives no expected hypervisor",
        "plugin_utils/base/_action.py",
        "return _peers.matching(self._templar.template(pattern), self._loader, self._values)",
        "return [] if pattern else _peers.matching(pattern, self._loader, self._values)",
        f"{_OF_PLAY}::test_hypervisor_outside_of_limit_must_answer",
    ),
    Fault(
        "a disk that waits for the next start is not saved",
        "backup/definition.py",
        "made.disks.append(DefinedDisk(target, element, waits=True))",
        "remove_disks(made.root, [target])",
        "backup/test_definition.py::test_archive_of_running_vm_has_the_definition_of_its_disks",
    ),
    Fault(
        "a disk that the definition has and the archive has not is no reason to refuse",
        "backup/definition.py",
        'problems += [f"a disk {dev}, which was not saved" for dev in missing]',
        "del missing",
        "backup/test_definition.py::test_definition_of_other_disks_is_unrestorable",
    ),
    Fault(
        "a saved disk is left out of what is restored",
        "restore/read_archives.py",
        "left = [target for target in unknown if target in without]",
        "left = [*without]",
        "restore/test_definition.py::test_disk_that_was_saved_is_never_left_out",
    ),
    Fault(
        "an archive replaced under its name is the known one",
        "backup/known.py",
        "repository.ids.get(name) != known_id",
        "name not in repository.names",
        "backup/test_known.py::test_archive_of_another_id_is_named_and_that_id_can_be_accepted",
    ),
    Fault(
        "an archive of the future is the newest",
        "backup/listing.py",
        "(ahead if archives.is_ahead(name, now) else vms).append(saved)",
        "vms.append(saved)",
        "backup/test_listing.py::test_nineteen_archives_of_the_future_push_out_no_true_archive",
    ),
    Fault(
        "an archive of the future is restored by itself",
        "restore/read_archives.py",
        "[vm.backup for vm in repository.vms] if wanted is None else all_backups",
        "all_backups",
        "backup/test_pruner.py::test_restore_skips_archives_of_the_future_and_says_so",
    ),
    Fault(
        "what was planted for days to come counts once a place is accepted",
        "backup/known.py",
        "return repository.uuid in accepted",
        "return repository.uuid in accepted or repository.place in accepted",
        "backup/test_known.py::test_archive_made_long_before_its_moment_never_counts",
    ),
    Fault(
        "a replaced archive inherits the proof",
        "backup/listing.py",
        "proof.archive_id != ids.get(proof.of)",
        "proof.of not in ids",
        "backup/test_listing.py::test_proof_is_of_the_archive_with_its_id_and_an_older_proof_of_the_name",
    ),
    Fault(
        "an unknown repository is pruned",
        "plugin_utils/backup/_prune.py",
        "if known.is_new(repository, earlier, self.accepted):",
        "if False:",
        "backup/test_pruner.py::test_repository_that_is_unknown_is_only_remembered_at_first",
    ),
    Fault(
        "any number confirms a purge",
        "purge/decide.py",
        "    if confirm.strip() == str(count):\n",
        "    if confirm.strip():\n",
        "purge/test_decide.py::test_purge_of_pattern_needs_the_number_of_vms",
    ),
    Fault(
        "a pool that somebody stopped is started for an image",
        "storage/effects_storage.py",
        "        if makes and is_half_made(connection, handle, name, str(path)):\n",
        "        if makes:\n",
        "storage/test_pool_crashes.py::test_pool_that_somebody_stopped_is_not_started_for_an_image",
    ),
    Fault(
        "a pool of others is started over storage that is not mounted",
        "storage/read_pools.py",
        "        return bool(os.listdir(path))\n",
        "        return True\n",
        "storage/test_pool_crashes.py"
        "::test_stopped_pool_of_others_is_started_unless_its_folder_may_be_a_bare_mount_point",
    ),
    Fault(
        "a hypervisor is rebooted whose maintenance somebody has ended",
        "rolling/read.py",
        "    return begun and MAINTENANCE_VOLUME in there\n",
        "    return begun\n",
        "rolling/test_effects.py::test_reboot_is_for_the_run_whose_maintenance_lasts",
    ),
    Fault(
        "a stale answer of the round before passes",
        "engine/envelope.py",
        "        if told.get(name) != wanted:\n",
        '        if name != "round" and told.get(name) != wanted:\n',
        f"{_ENVELOPE}::test_answer_to_other_work_is_refused",
    ),
    Fault(
        "a skipped task's register passes",
        "engine/envelope.py",
        '    if not answer or answer.get("skipped"):\n',
        "    if not answer:\n",
        f"{_ENVELOPE}::test_register_of_skipped_task_is_no_answer",
    ),
    Fault(
        "the end of a failed module is dropped",
        "engine/envelope.py",
        '    end = next((end for end in (UNREACHABLE, FAILED) if answer.get(end)), "")\n',
        '    end = ""\n',
        f"{_ENVELOPE}::test_end_of_module_is_answer_that_says_so",
    ),
    Fault(
        "the run in an answer's header is not compared",
        "engine/envelope.py",
        "    for name in HEADER:\n",
        "    for name in HEADER[1:]:\n",
        f"{_ENVELOPE}::test_answer_to_other_work_is_refused",
    ),
    Fault(
        "which files were made is not noted",
        "provision/effects_creation.py",
        "    volumes.note(job.host, job.draft, str(job.uuid), job.draft.disks)\n",
        "    del job\n",
        f"{_CREATION}::test_a_killed_creation_is_finished_by_the_next",
    ),
    Fault(
        "that making the volumes has begun is not noted",
        "provision/effects_creation.py",
        "        claimed = dataclasses.replace(stored, owner=me, volumes=own)\n",
        "        claimed = dataclasses.replace(stored, owner=me)\n",
        f"{_CREATION}::test_a_killed_creation_is_finished_by_the_next",
    ),
    Fault(
        "a claim is stolen from the living",
        "base/read_processes.py",
        "    return pid > 0 and boot == boot_id() and start_time(pid) == started\n",
        "    return False\n",
        f"{_CREATION}::test_a_claim_of_the_living_is_left_alone",
    ),
    Fault(
        "a run takes back claims of others",
        "provision/effects_creation.py",
        "    if owner is None or (owner.run, owner.pid) != (claimer.run, claimer.pid):\n",
        "    if owner is None:\n",
        f"{_CREATION}::test_a_run_takes_back_its_own_claims_only",
    ),
    Fault(
        "what was begun is withdrawn",
        "provision/effects_creation.py",
        "(owner.run, owner.pid) != (claimer.run, claimer.pid)",
        "owner.run != claimer.run",
        f"{_CREATION}::test_a_creation_that_was_begun_is_no_claim_any_more",
    ),
    Fault(
        "what failed is not undone",
        "provision/effects_creation.py",
        "    dom = None if job.remaining else find_domain(job.connection, job.name)\n",
        "    dom = find_domain(job.connection, job.name) if job.remaining else None\n",
        f"{_CREATION}::test_a_creation_that_fails_leaves_nothing",
    ),
    Fault(
        "volumes stay when their VM is given up",
        "provision/effects_creation.py",
        "    if paths and own is not None:\n",
        "    if paths and own is not None and not disks:\n",
        f"{_CREATION}::test_a_creation_that_fails_leaves_nothing",
    ),
    Fault(
        "a volume whose making got no answer is forgotten",
        "provision/effects_creation_volumes.py",
        "        if plan not in made:\n            made.append(plan)\n",
        "",
        f"{_CREATION}::test_a_creation_that_fails_leaves_nothing",
    ),
    Fault(
        "one that fails takes the others with it",
        "provision/effects_creation.py",
        "        if job.problem:\n            msg",
        "        job.problem = next((other.problem for other in jobs if other.problem), '')\n"
        "        if job.problem:\n            msg",
        f"{_CREATION}::test_one_that_fails_takes_no_other_with_it",
    ),
    Fault(
        "a dead run's claim goes before its volumes",
        "provision/effects_creation.py",
        "        creation_rest.remove(job.host, job.claimed(), job.taken)\n",
        "        domains.undefine(job.connection, job.claimed())\n"
        "        creation_rest.remove(job.host, job.claimed(), job.taken)\n",
        f"{_CREATION}::test_cleaning_up_after_a_dead_run_may_be_killed_too",
    ),
    Fault(
        "a VM counts as whole before it was started",
        "provision/effects_creation.py",
        "    starter = job.claimer if job.domain.start else None\n",
        "    starter = None\n",
        f"{_CREATION}::test_a_killed_creation_is_finished_by_the_next",
    ),
    Fault(
        "a guest that was started paused stays paused",
        "provision/effects_creation.py",
        "    if state == DOMAIN_PAUSED:\n",
        "    if state < 0:\n",
        f"{_CREATION}::test_a_killed_creation_is_finished_by_the_next[names1]",
    ),
    Fault(
        "what came under the name of a volume is taken for it",
        "storage/effects_own_files.py",
        '            return "it appeared after the name was claimed and before the volume'
        ' was created"\n',
        "            return None\n",
        f"{_PURGE}::test_the_rest_of_a_dead_run_goes_and_what_came_later_stays",
    ),
    Fault(
        "another file of the same name is taken for the one that was made",
        "storage/effects_own_files.py",
        "identity.is_same(volume.made, identity.of_open(descriptor))",
        "volume.made",
        f"{_OWNED}::test_another_file_of_its_name",
    ),
    Fault(
        "a file that another domain uses is removed",
        "storage/effects_own_files.py",
        "    if users:\n",
        "    if users and not proven:\n",
        f"{_OWNED}::test_whoever_names_it_keeps_it",
    ),
    Fault(
        "a purge removes the definition before the volumes",
        "purge/effects.py",
        "    volumes = {volume.path: volume for volume in job.removals.volumes}\n",
        "    domains.undefine(job.connection, job.dom)\n"
        "    volumes = {volume.path: volume for volume in job.removals.volumes}\n",
        f"{_PURGE}::test_a_killed_purge_is_finished_by_the_next",
    ),
    Fault(
        "libvirt is not asked to remove a volume",
        "storage/effects_storage.py",
        'patiently(connection, f"remove volume {name}", lambda: volume.delete(0))\n',
        "volume.path()\n",
        f"{_PURGE}::test_a_killed_purge_is_finished_by_the_next",
    ),
    Fault(
        "a disk is renamed that a process has locked",
        "restart/plan.py",
        "    yield from locks(facts)\n",
        "",
        f"{_RESTART}::test_disk_that_is_locked_is_not_renamed",
    ),
    Fault(
        "a card of this machine under another name is taken whatever disks it names",
        "cards/keep.py",
        "    return vm is None or set(file.card.disks) <= set(disks)\n",
        "    return True\n",
        "cards/test_effects_keep.py::test_leftover_takes_no_card_of_host_with_same_uuid",
    ),
    Fault(
        "a VM that is off with its disks counts as a leftover",
        "cards/read_leftovers.py",
        "    if disks:\n        return",
        "    if disks and vm.active:\n        return",
        f"{_RESTART}::test_definition_that_is_no_leftover_is_neither_replaced_nor_overlooked",
    ),
    Fault(
        "what is defined on the new hypervisor is not looked at before it is replaced",
        "restart/effects.py",
        '    if why is not None:\n        raise PlanRefused(f"{job.facts.new} has',
        '    if why is not None and vm is None:\n        raise PlanRefused(f"{job.facts.new} has',
        f"{_RESTART}::test_definition_made_while_vm_is_taken_over_is_not_replaced",
    ),
    Fault(
        "a VM that is given back leaves a definition that fits its disks again",
        "restart/effects.py",
        ".on(DefineVm, _guarded(_define), _guarded(_undefine))",
        ".on(DefineVm, _guarded(_define))",
        f"{_RESTART}::test_vm_that_is_given_back_leaves_no_definition",
    ),
    Fault(
        "a card that another hypervisor changes last names files of this one",
        "restart/effects.py",
        "    if strangers:\n        raise",
        "    if strangers and card.snapshots:\n        raise",
        f"{_RESTART}::test_card_that_changes_after_it_was_judged_is_not_defined",
    ),
    Fault(
        "a disk that is a link to any file of a hypervisor is taken over",
        "restart/read.py",
        "*_odd(named.files(root))]",
        "*_odd([])]",
        f"{_RESTART}::test_disk_that_is_a_link_is_not_taken_over",
    ),
    Fault(
        "a card decides which file of a hypervisor its guest reads",
        "restart/named.py",
        "        return places.has(text)\n",
        "        return True\n",
        "restart/test_named.py::test_hostile_card_is_refused_with_what_it_names",
    ),
    Fault(
        "disks get names once more that a definition elsewhere has",
        "restart/effects.py",
        "job.card, definition=text, machine=job.machine)",
        "job.card, definition=text, machine=job.machine, counter=job.facts.counter)",
        f"{_RESTART}::test_definition_whose_answer_was_lost_fits_no_disk",
    ),
    Fault(
        "a VM with two cards is started from one of them",
        "restart/read.py",
        "        if other.card.uuid == card.uuid or same_name:\n",
        "        if other.card.uuid == card.uuid and other.at != file.at:\n",
        f"{_RESTART}::test_vm_with_two_cards_stays_and_both_are_named",
    ),
    Fault(
        "a VM is taken over by another card than was looked at",
        "restart/effects.py",
        "is_same(file.identity, seen.identity)",
        "file.identity",
        f"{_RESTART}::test_act_takes_no_other_file_than_was_looked_at",
    ),
    Fault(
        "an existing file is taken for the disk under its new name",
        "restart/plan.py",
        " and target not in facts.linked:\n",
        " and not facts.paths:\n",
        f"{_RESTART}::test_existing_file_of_new_name_is_never_replaced",
    ),
    Fault(
        "one power supply that is off proves that a host is",
        "fencing/plan.py",
        "bool(statuses) and all(",
        "any(",
        "fencing/test_plan.py::test_host_is_off_when_all_its_power_supplies_are",
    ),
    Fault(
        "a program that ends as one that says off is believed",
        "fencing/plan.py",
        "if len(said) == 1 and _ENDS[said[0]] == ended:",
        "said = [state for state, end in _ENDS.items() if end == ended]\n    if said:",
        "fencing/test_effects.py::test_agent_that_exits_with_2_and_prints_no_status_proves_nothing",
    ),
    Fault(
        "silence of a host that nobody could hear is taken for its death",
        "restart/decide.py",
        "if host not in given.stated and not any(",
        "if host not in given.stated and not answers and not any(",
        "restart/test_decide.py::test_inaudible_hypervisor_is_not_silent",
    ),
    Fault(
        "an agent that switches no power proves that a host is off",
        "fencing/metadata.py",
        "    if not missing:\n",
        "    if root is not None:\n",
        "fencing/test_effects.py::test_agent_of_something_else_than_power_is_not_used",
    ),
    Fault(
        "a host that answers after it was fenced is believed to be off",
        "fencing/effects.py",
        "        raise PlanRefused(plan.not_proven(host, statuses, failures))\n"
        "    still = _require_silence(options, fenced=True)\n    return _result(plan.SWITCHED",
        "        raise PlanRefused(plan.not_proven(host, statuses, failures))\n"
        "    still = ''\n    return _result(plan.SWITCHED",
        "fencing/test_effects.py::test_host_that_answers_although_it_is_off_is_refused",
    ),
    Fault(
        "keys are in use before all of them are written",
        "keys/effects.py",
        "    _folders(new)\n    for kind",
        "    _folders(new)\n    new.rename(version)\n    new.symlink_to(version)\n"
        "    _switch(Path(CURRENT), version.name)\n    for kind",
        f"{_KEYS}::test_a_renewal_is_there_at_once_or_not",
    ),
    Fault(
        "a version of keys that was half written is taken up",
        "keys/effects.py",
        "    shutil.rmtree(new, ignore_errors=True)\n",
        "",
        f"{_KEYS}::test_a_renewal_is_there_at_once_or_not",
    ),
    Fault(
        "somebody else's keys are replaced and not kept",
        "keys/effects.py",
        "        _adopt()\n",
        "",
        f"{_KEYS}::test_files_of_others_are_kept_and_read_until_there_are_ours",
    ),
    Fault(
        "no keys are in use while the next are written",
        "keys/effects.py",
        "        before = _link(Path(CURRENT))\n",
        "        before = _link(Path(CURRENT))\n        Path(CURRENT).unlink(missing_ok=True)\n",
        f"{_KEYS}::test_a_renewal_is_there_at_once_or_not",
    ),
    Fault(
        "a switch of the network is applied before its rollback is armed",
        "bridge/effects_journal.py",
        '    _start("rollback", identifier, ["timer", identifier], window)\n',
        '    _start("apply", identifier, [], _APPLY_AFTER)\n'
        '    _start("rollback", identifier, ["timer", identifier], window)\n',
        f"{_JOURNAL}::test_a_switch_is_applied_only_when_it_can_be_undone",
    ),
    Fault(
        "a switch that was taken back counts as confirmed",
        "bridge/effects_journal.py",
        '    except FileNotFoundError:\n        return state() == "confirmed"\n',
        "    except FileNotFoundError:\n        return True\n",
        f"{_JOURNAL}::test_a_rollback_that_was_interrupted_goes_on_at_boot",
    ),
    Fault(
        "a VM that arrived is undone because it is defined here still",
        "migration/settling.py",
        "    _S.OFF: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.WAIT, _V.REPLACE),\n",
        "    _S.OFF: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.WAIT, _V.UNDO),\n",
        f"{_SETTLE}::test_where_both_ends_tell",
    ),
    Fault(
        "a VM that runs on both ends is taken away from one",
        "migration/settling.py",
        "    _S.RUNNING: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.STOP, _V.WAIT),\n",
        "    _S.RUNNING: (_V.WAIT, _V.UNDO, _V.WAIT, _V.WAIT, _V.STOP, _V.REPLACE),\n",
        f"{_SETTLE}::test_where_they_do_not_nothing_is_done",
    ),
    Fault(
        "another VM of the same name is taken for the one that moved",
        "migration/read_endpoints.py",
        "        return self.dom is not None and str(self.dom.UUIDString()) == uuid\n",
        "        return self.dom is not None\n",
        f"{_SETTLE}::test_where_they_do_not_nothing_is_done",
    ),
    Fault(
        "a definition that no move has marked is taken away",
        "migration/effects_settle.py",
        "        if source.stored is None or source.stored.phase != moving.MIGRATING:\n",
        "        if source.stored is None:\n",
        f"{_SETTLE}::test_where_they_do_not_nothing_is_done",
    ),
    Fault(
        "the marks of a move go before what it left",
        "migration/effects_settle.py",
        "        self.job.changed = True\n",
        "        self.job.changed = True\n"
        "        stored = destination.stored or metadata.Metadata()\n"
        "        bare = dataclasses.replace(stored, phase=None)\n"
        "        migration_endpoints.write_everywhere(remote, destination.dom, bare)\n",
        f"{_SETTLE}::test_settling_may_be_killed_and_is_done_again",
    ),
    Fault(
        "a move that failed is not settled",
        "migration/effects_move.py",
        "    moves.marked = True\n",
        "",
        f"{_MOVE}::test_a_move_that_fails_leaves_it_as_it_was",
    ),
    Fault(
        "a volume of a move is not noted once it is made",
        "migration/effects_volumes.py",
        "        _note(remote, source.name, volume.path, MADE)\n",
        "",
        f"{_MOVE}::test_each_step_changes_what_it_says",
    ),
    Fault(
        "a move overwrites memory that a VM on the destination shares",
        "migration/read_candidates.py",
        "HostNames(names), moving=True)",
        "HostNames(names))",
        f"{_LOOK}::test_shared_memory_of_vm_on_destination_is_compared",
    ),
    Fault(
        "the place of a VM that moved is given up after its marks",
        "migration/plan_steps.py",
        "    steps.append(_final(ReleaseClaim(), text, lambda state: replace(state, claim=None)))"
        "\n",
        "    steps.append(_final(Unmark(), text, _there(phase=None, before=None)))\n"
        "    steps.append(_final(ReleaseClaim(), text, lambda state: replace(state, claim=None)))"
        "\n",
        f"{_MOVE}::test_killed_at_each_effect_the_next_run_ends_it",
    ),
    Fault(
        "a VM that leaves while its hypervisor is read is said to be there, in no move",
        "migration/read_candidates.py",
        "    seen = _seen(connection)\n"
        "    host = placement_facts.read(connection, base_pool, base_path)\n",
        "    host = placement_facts.read(connection, base_pool, base_path)\n"
        "    seen = _seen(connection)\n",
        f"{_LOOK}::test_one_that_leaves_meanwhile_is_not_said_to_be_there_and_in_no_move",
    ),
    Fault(
        "a medium that could not be put in stays",
        "seeding/effects.py",
        "        seed_medium.delete(job.connection, job.vm.dom, [job.made])\n",
        "        pass\n",
        f"{_SEEDING}::test_a_seed_that_fails_changes_nothing",
    ),
    Fault(
        "the medium that a VM has goes before it has another",
        "seeding/plan.py",
        "    return [medium for medium in facts.media if medium.path != facts.drive]\n",
        "    return list(facts.media)\n",
        f"{_SEEDING}::test_a_medium_is_there_whole_or_the_one_before",
    ),
    Fault(
        "a medium is not noted before it is made",
        "seeding/plan.py",
        '    yield Step(note, f"name {volume.name} in the metadata", note.effect)\n',
        "",
        f"{_SEEDING}::test_a_medium_is_there_whole_or_the_one_before",
    ),
    Fault(
        "a VM that is started while its seed is made gets it nevertheless",
        "seeding/effects.py",
        "    refusals = planning.plan(facts, job.wanted).refusals\n",
        "    refusals = ()\n",
        f"{_MEANWHILE}::test_a_vm_that_is_started_meanwhile_keeps_what_it_had",
    ),
    Fault(
        "a VM whose disk holds a part of its seed can be started",
        "seeding/effects.py",
        "        raise  # the VM stays as it is and cannot be started\n",
        "        _restore(job, step)\n        raise\n",
        f"{_MEANWHILE}::test_only_a_disk_that_was_not_written_to_can_be_started_again",
    ),
    Fault(
        "what another run notes while a medium is made is overwritten",
        "seeding/effects.py",
        "            self.after = effect(dataclasses.replace(self.after, stored=self.read()))\n",
        "            self.after = effect(self.after)\n",
        f"{_MEANWHILE}::test_what_another_run_notes_meanwhile_stays",
    ),
    Fault(
        "a daemon's limits are changed before their return is certain",
        "keys/effects_reload.py",
        '    saved.write_text(json.dumps(limits), encoding="ascii")\n',
        '    saved.write_text(json.dumps(limits), encoding="ascii")\n'
        '    _admin(daemon, timeout, "server-clients-set", daemon, "--max-clients", "1",'
        ' "--max-unauth-clients", "1")\n',
        f"{_RELOAD}::test_people_get_in_again_whenever_it_is_killed",
    ),
    Fault(
        "the limits that a killed run left are taken for the daemon's own",
        "keys/effects_reload.py",
        '    if limits["nclients_max"] == 1 and saved.exists():',
        '    if limits["nclients_max"] == 0 and saved.exists():',
        f"{_RELOAD}::test_people_get_in_again_whenever_it_is_killed",
    ),
    Fault(
        "a hypervisor that notes or cards know becomes another machine to the fleet",
        "daemon/identity.py",
        "    if texts:\n",
        "    if texts and silent:\n",
        "daemon/test_identity.py::test_systemd_id_of_two_hosts_is_refused_with_a_remedy",
    ),
)


def _copy(to: Path) -> None:
    for name in _COPIED:
        shutil.copytree(
            CHECKOUT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    for name in _FILES:
        shutil.copy(CHECKOUT / name, to / name)


def _run(root: Path, tests: list[str]) -> tuple[int, str]:
    """pytest's status on these tests, and the end of what it says."""
    words = [f"tests/unit/{one}" for one in tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    return done.returncode, done.stdout[-2000:] + done.stderr[-2000:]


def _is_found(fault: Fault) -> str:
    """Empty if its tests fail with the fault; else what they say."""
    with tempfile.TemporaryDirectory(prefix="fleet-virt-fault-") as name:
        root = Path(name)
        _copy(root)
        file = root / fault.path
        file.write_text(fault.applied(file.read_text()))
        try:
            status, text = _run(root, [fault.tests])
        except subprocess.TimeoutExpired:
            return f"no end within {_SECONDS} seconds"
    # 1: tests failed; anything else is not the fault's doing
    return "" if status == 1 else f"pytest ended with {status}\n{text}"


def main(words: list[str]) -> int:
    """Seed the faults that have one of ``words`` in their names, all without any."""
    faults = [one for one in FAULTS if not words or any(word in one.name for word in words)]
    status, text = _run(CHECKOUT, sorted({fault.tests for fault in faults}))
    if status:
        print(text)
        print("these tests fail without any fault")
        return 1
    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = list(pool.map(_is_found, faults))
    for fault, answer in zip(faults, answers):
        print(f"{'NOT FOUND' if answer else 'found'}: {fault.name}")
        if answer:
            print(answer)
    found = sum(not answer for answer in answers)
    print(f"{found} of {len(faults)} found")
    return 0 if found == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
