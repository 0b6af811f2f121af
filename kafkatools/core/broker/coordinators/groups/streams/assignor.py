"""The sticky assignor of streams groups (Kafka's StickyTaskAssignor of 4.3), a pure function.

Active tasks stay where they were, or go to a member that had them as standby, as long as the member has less than its
share. The rest goes to the process with the least load, and there to the member with the fewest tasks. Standbys follow
in the same way, never two tasks of a kind in one process. Ties break as in Java's hash maps and priority queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from kafkatools.core.broker.coordinators.groups.streams.tasks import Task, Tasks, task_set, tasks_in
from kafkatools.core.errors import UnknownServerError
from kafkatools.core.java.hash_order import hash_order

Item = TypeVar("Item")


class MemberTasks(NamedTuple):
    """A member as the assignor sees it: its process, and its previous target tasks."""

    process_id: str
    previous: Tasks


class SubtopologyTasks(NamedTuple):
    """The number of tasks of a subtopology. Only stateful tasks have standbys."""

    task_count: int
    is_stateful: bool


class _JavaHeap(Generic[Item]):
    """Java's PriorityQueue, whose order among equal items is visible."""

    def __init__(self, load: Callable[[Item], float], items: Iterable[Item]) -> None:
        self._load = load
        self._items: list[Item] = []
        for item in items:
            self.add(item)

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: Item) -> None:
        """Insert at the end, then move up."""
        items, load = self._items, self._load
        items.append(item)
        index = len(items) - 1
        while index:
            parent = (index - 1) >> 1
            if load(item) >= load(items[parent]):
                break
            items[index] = items[parent]
            index = parent
        items[index] = item

    def poll(self) -> Item:
        """Remove the least item; the last one moves down from the top."""
        items, load = self._items, self._load
        least, last = items[0], items.pop()
        if not items:
            return least
        index, half = 0, len(items) >> 1
        while index < half:
            child = 2 * index + 1
            if child + 1 < len(items) and load(items[child]) > load(items[child + 1]):
                child += 1
            if load(last) <= load(items[child]):
                break
            items[index] = items[child]
            index = child
        items[index] = last
        return least


@dataclass(eq=False, slots=True)
class _Process:
    """The tasks that a process has been given."""

    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[Task] = field(default_factory=set)
    active: dict[str, set[Task]] = field(default_factory=dict)
    standby: dict[str, set[Task]] = field(default_factory=dict)
    task_count: int = 0
    least_loaded: _JavaHeap[list[str | int]] | None = None

    @property
    def load(self) -> float:
        """Tasks per member."""
        return self.task_count / len(self.counts)

    def give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a task to a member. Returns the member's number of tasks."""
        self.least_loaded = None
        return self._give(member_id, task, is_active=is_active)

    def _give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        self.task_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def give_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Give a task to the member with the fewest tasks. Returns that member's number of tasks."""
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, is_active=is_active)
        if self.least_loaded is None:
            rows: list[list[str | int]] = [[member_id, self.counts[member_id]] for member_id in hash_order(self.counts)]
            self.least_loaded = _JavaHeap(lambda row: int(row[1]), rows)
        row = self.least_loaded.poll()
        row[1] = self._give(str(row[0]), task, is_active=is_active)
        self.least_loaded.add(row)
        return int(row[1])


class _Share:
    """The greatest number of tasks that a member gets before others have as many: it falls as members are full."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._tasks, self._members = task_count, member_count
        self.value = self._per_member()

    def _per_member(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0

    def note(self, member_task_count: int) -> None:
        """Note the number of tasks of a member that was given one."""
        if member_task_count == self.value:
            self._members -= 1
            self._tasks -= member_task_count
            self.value = self._per_member()


Place = tuple[str, str]
"""Process id and member id."""


class _Assignment:
    def __init__(
        self, members: Mapping[str, MemberTasks], subtopologies: Mapping[str, SubtopologyTasks], standby_count: int
    ) -> None:
        self._standby_count = standby_count
        self._subtopologies = subtopologies
        active_count = sum(part.task_count for part in subtopologies.values())
        standby_total = sum(part.task_count * standby_count for part in subtopologies.values() if part.is_stateful)
        self._active_share = _Share(active_count, len(members))
        self._total_share = _Share(active_count + standby_total, len(members))
        self._processes: dict[str, _Process] = {}
        self._active_before: dict[Task, Place] = {}
        self._standby_before: dict[Task, list[Place]] = {}
        for member_id in hash_order(members):
            process_id, previous = members[member_id]
            self._processes.setdefault(process_id, _Process()).counts[member_id] = 0
            for task in tasks_in(previous.active):
                self._active_before[task] = (process_id, member_id)
            for task in tasks_in(previous.standby):
                self._standby_before.setdefault(task, []).append((process_id, member_id))
        capacity = len(members)
        self._by_load = [self._processes[key] for key in hash_order(self._processes, capacity=max(capacity, 1))]

    # -- active tasks ----------------------------------------------------------------------------------------------
    def assign_active(self) -> None:
        """Assign all active tasks."""
        tasks = sorted(self._tasks(), key=lambda task: (task[1], task[0]))
        tasks = [task for task in tasks if not self._keep(self._active_before.get(task), task)]
        tasks = [task for task in tasks if not self._keep(self._least_loaded(task, is_standby=False), task)]
        queue = _JavaHeap(lambda process: process.load, self._by_load)
        for task in sorted(tasks):
            if not queue:
                raise UnknownServerError(f"No process available to assign active task {task[0]}_{task[1]}.")
            process = queue.poll()
            self._note_active(process.give_to_least_loaded(task, is_active=True))
            queue.add(process)

    def _tasks(self, *, only_stateful: bool = False) -> list[Task]:
        return [
            (subtopology, partition)
            for subtopology, part in sorted(self._subtopologies.items())
            if part.is_stateful or not only_stateful
            for partition in range(part.task_count)
        ]

    def _keep(self, place: Place | None, task: Task) -> bool:
        """Give an active task to a member that had it, if the member has less than its share."""
        if place is None:
            return False
        process = self._processes[place[0]]
        if process.counts[place[1]] >= self._active_share.value:
            return False
        self._note_active(process.give(place[1], task, is_active=True))
        return True

    def _note_active(self, count: int) -> None:
        self._active_share.note(count)
        self._total_share.note(count)

    def _least_loaded(self, task: Task, *, is_standby: bool) -> Place | None:
        """The member that had the task as standby and has the least load. For a standby, None if the process of the
        first such member has the task already."""
        places = self._standby_before.get(task, [])
        if not places:
            return None
        chosen = places[0]
        first = self._processes[chosen[0]]
        process_load, member_load = first.load, first.counts[chosen[1]]
        for place in places[1:]:
            process = self._processes[place[0]]
            is_free = not (is_standby and task in process.tasks)
            if is_free and process.load < process_load and process.counts[place[1]] < member_load:
                process_load, member_load, chosen = process.load, process.counts[place[1]], place
        return None if is_standby and task in first.tasks else chosen

    # -- standbys --------------------------------------------------------------------------------------------------
    def assign_standbys(self) -> None:
        """Assign the standbys of all stateful tasks, as far as there are processes without the task."""
        rest: list[tuple[Task, int]] = []
        tasks = sorted(self._tasks(only_stateful=True), key=lambda task: (task[1], task[0]), reverse=True)
        for task in tasks:
            for index in range(self._standby_count):
                if not self._keep_standby(task):
                    rest.append((task, self._standby_count - index))
                    break
        rest.sort(key=lambda row: row[0], reverse=True)
        queue = _JavaHeap(lambda process: process.load, self._by_load)
        for task, count in rest:
            for _ in range(count):
                if not self._give_standby(queue, task):
                    break

    def _keep_standby(self, task: Task) -> bool:
        place = self._active_before.get(task)
        if place is not None and task not in self._processes[place[0]].tasks and self._give_if_room(place, task):
            return True
        place = self._least_loaded(task, is_standby=True)
        return place is not None and self._give_if_room(place, task)

    def _give_if_room(self, place: Place, task: Task) -> bool:
        process = self._processes[place[0]]
        if process.counts[place[1]] >= self._total_share.value:
            return False
        self._total_share.note(process.give(place[1], task, is_active=False))
        return True

    def _give_standby(self, queue: _JavaHeap[_Process], task: Task) -> bool:
        if not queue:
            return False
        process, is_given = queue.poll(), False
        if task not in process.tasks:
            self._total_share.note(process.give_to_least_loaded(task, is_active=False))
            is_given = True
        elif queue:
            is_given = self._give_standby(queue, task)
        queue.add(process)
        return is_given

    def result(self, member_ids: Iterable[str]) -> dict[str, Tasks]:
        """The tasks of each member."""
        active = {member: tasks for process in self._by_load for member, tasks in process.active.items()}
        standby = {member: tasks for process in self._by_load for member, tasks in process.standby.items()}
        return {key: Tasks(task_set(active.get(key, ())), task_set(standby.get(key, ()))) for key in member_ids}


def assign(
    members: Mapping[str, MemberTasks], subtopologies: Mapping[str, SubtopologyTasks], standby_count: int
) -> dict[str, Tasks]:
    """The target tasks of each member, by member id. Raises UnknownServerError for tasks without a member."""
    assignment = _Assignment(members, subtopologies, standby_count)
    assignment.assign_active()
    if standby_count > 0:
        assignment.assign_standbys()
    return assignment.result(members)
