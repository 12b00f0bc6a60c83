"""What operators expect of the servers of a chart like this, one sentence a test, on what is rendered."""

import unittest

import chart
import yaml
from chart_case import Case, chart_values

VERSION_LABELS = {"app.kubernetes.io/version", "helm.sh/chart"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


class IdentityTest(Case):
    def test_selectors_carry_no_version(self):
        for server in self.each_server():
            self.assertFalse(VERSION_LABELS & set(server["spec"]["selector"]["matchLabels"]))

    def test_volume_claim_templates_carry_no_version_and_no_common_label(self):
        for server in self.each_server():
            for claim in server["spec"].get("volumeClaimTemplates", []):
                self.assertEqual(claim["metadata"]["labels"], server["spec"]["selector"]["matchLabels"])

    def test_pods_carry_no_version_so_a_new_chart_alone_restarts_nothing(self):
        for pod in self.each_pod():
            if "annotations" not in pod["metadata"] or "helm.sh/hook" not in pod["metadata"]["annotations"]:
                self.assertFalse(VERSION_LABELS & set(pod["metadata"]["labels"]))

    def test_selectors_match_the_labels_of_their_pods(self):
        for server in self.each_server():
            labels = server["spec"]["template"]["metadata"]["labels"]
            self.assertLessEqual(server["spec"]["selector"]["matchLabels"].items(), labels.items())

    def test_selectors_of_shards_and_coordinator_differ(self):
        for objects in self.each():
            selectors = [server["spec"]["selector"]["matchLabels"] for server in objects.servers()]
            self.assertNotEqual(*selectors)

    def test_common_labels_change_no_selector(self):
        plain = chart.render(overrides={"insecure": True})
        labelled = chart.render(overrides={"insecure": True, "commonLabels": {"team": "a"}})
        for one, other in zip(plain.servers(), labelled.servers()):
            self.assertEqual(one["spec"]["selector"], other["spec"]["selector"])
            self.assertEqual(other["spec"]["template"]["metadata"]["labels"]["team"], "a")

    def test_common_labels_are_on_every_object_of_ours(self):
        for item in chart.render_ci("ha"):
            self.assertEqual(item["metadata"]["labels"]["team"], "ranking", item["kind"])

    def test_every_object_names_chart_release_and_manager(self):
        for objects in self.each():
            for item in objects:
                if not item["metadata"]["name"].endswith(("-extra", "-text")):
                    labels = item["metadata"]["labels"]
                    self.assertEqual(labels["app.kubernetes.io/instance"], chart.RELEASE)
                    self.assertEqual(labels["app.kubernetes.io/managed-by"], "Helm")
                    self.assertRegex(labels["helm.sh/chart"], r"^dslide-\d")

    def test_names_fit_even_for_the_longest_release(self):
        for item in chart.render(overrides={"insecure": True, "fullnameOverride": "x" * 60}):
            limit = 52 if item["kind"] == "StatefulSet" else 63
            self.assertLessEqual(len(item["metadata"]["name"]), limit)


class StatefulSetTest(Case):
    def test_pods_are_managed_in_parallel(self):
        for server in self.each_server():
            self.assertEqual(server["spec"]["podManagementPolicy"], "Parallel")

    def test_the_service_of_a_set_is_its_headless_one(self):
        for objects in self.each():
            for server in objects.servers():
                service = objects.one("Service", server["spec"]["serviceName"])
                self.assertEqual(service["spec"]["clusterIP"], "None")

    def test_volumes_outlive_the_set_unless_told_otherwise(self):
        for server in chart.render_ci("minimal").servers():
            self.assertEqual(
                server["spec"]["persistentVolumeClaimRetentionPolicy"],
                {"whenDeleted": "Retain", "whenScaled": "Retain"},
            )

    def test_updates_can_be_staged_by_a_partition(self):
        strategy = chart.render_ci("ha").shards()["spec"]["updateStrategy"]
        self.assertEqual(strategy["rollingUpdate"]["partition"], 3)

    def test_a_pod_counts_as_available_only_after_some_seconds(self):
        for server in self.each_server():
            self.assertGreater(server["spec"]["minReadySeconds"], 0)

    def test_a_changed_configuration_restarts_the_pods(self):
        def sums(config):
            objects = chart.render(overrides={"insecure": True, "shard": {"config": config}})
            return [server["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for server in objects.servers()]

        one, other = sums({"max-clients": 10}), sums({"max-clients": 11})
        self.assertNotEqual(one[0], other[0])
        self.assertEqual(one[1], other[1])

    def test_a_new_chart_version_alone_changes_no_checksum(self):
        sums = {
            server["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
            for name in ("minimal", "openshift")
            for server in chart.render_ci(name).servers()
        }
        self.assertEqual(len(sums), 1)

    def test_storage_class_dash_means_none_and_empty_means_the_default(self):
        def storage_class(objects):
            claims = objects.shards()["spec"]["volumeClaimTemplates"]
            return claims[0]["spec"].get("storageClassName")

        self.assertEqual(storage_class(chart.render_ci("passthrough")), "")
        self.assertIsNone(storage_class(chart.render_ci("minimal")))
        self.assertEqual(storage_class(chart.render_ci("ha")), "fast")

    def test_the_data_directory_is_not_the_root_of_its_volume_where_lost_and_found_is(self):
        for server in self.each_server():
            container = chart.main_container(server["spec"]["template"])
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            self.assertEqual(mounts["data"], "/var/lib/dslide")
            self.assertEqual(chart.flags(container)["data-dir"], "/var/lib/dslide/data")

    def test_without_persistence_the_data_directory_is_still_writable(self):
        for server in chart.render_ci("no-persistence").servers():
            self.assertNotIn("volumeClaimTemplates", server["spec"])
            self.assertIn({"name": "data", "emptyDir": {}}, server["spec"]["template"]["spec"]["volumes"])


class ShardIdentityTest(Case):
    def test_a_shard_gets_its_number_from_its_place_in_the_set(self):
        for objects in self.each():
            env = {item["name"]: item for item in chart.main_container(objects.shards()["spec"]["template"])["env"]}
            path = env["DSLIDE_SHARD_ID"]["valueFrom"]["fieldRef"]["fieldPath"]
            self.assertEqual(path, "metadata.labels['apps.kubernetes.io/pod-index']")

    def test_kubernetes_versions_without_that_label_are_refused(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertEqual(meta["kubeVersion"], ">=1.29.0-0")

    def test_a_shard_advertises_its_own_name_in_the_headless_service(self):
        for objects in self.each():
            service = objects.shards()["spec"]["serviceName"]
            advertised = chart.flags(chart.main_container(objects.shards()["spec"]["template"]))["advertise"]
            self.assertRegex(advertised, rf"^\$\(POD_NAME\)\.{service}\.ns\.svc(\.cluster\.local)?:7010$")

    def test_the_coordinator_expects_as_many_shards_as_there_are_pods(self):
        for objects in self.each():
            told = chart.flags(chart.main_container(objects.coordinator()["spec"]["template"]))["shards"]
            self.assertEqual(int(told), objects.shards()["spec"]["replicas"])

    def test_there_is_one_coordinator(self):
        for objects in self.each():
            self.assertEqual(objects.coordinator()["spec"]["replicas"], 1)

    def test_shards_reach_the_coordinator_even_before_it_is_ready(self):
        for objects in self.each():
            address = chart.flags(chart.main_container(objects.shards()["spec"]["template"]))["coordinator"]
            self.assertIn(f"-0.{objects.coordinator()['spec']['serviceName']}.", address)

    def test_the_number_of_shards_is_kept_on_the_set(self):
        for objects in self.each():
            shards = objects.shards()
            self.assertEqual(shards["metadata"]["annotations"]["dslide/shards"], str(shards["spec"]["replicas"]))


class ServiceTest(Case):
    def test_headless_services_publish_addresses_that_are_not_ready(self):
        for objects in self.each():
            for server in objects.servers():
                service = objects.one("Service", server["spec"]["serviceName"])
                self.assertIs(service["spec"]["publishNotReadyAddresses"], True)

    def test_no_service_spreads_calls_over_shards(self):
        for objects in self.each():
            for service in objects.all("Service"):
                if service["spec"]["selector"]["app.kubernetes.io/component"] == "shard":
                    self.assertEqual(service["spec"]["clusterIP"], "None")

    def test_no_service_is_open_to_the_world_by_default(self):
        for service in chart.render_ci("minimal").all("Service"):
            self.assertEqual(service["spec"]["type"], "ClusterIP")

    def test_ports_are_named_and_say_their_protocol(self):
        for name, objects in chart.every_ci():
            secure = name in ("tls", "ha")
            for service in objects.all("Service"):
                with self.subTest(values=name, service=service["metadata"]["name"]):
                    protocols = {port["name"]: port["appProtocol"] for port in service["spec"]["ports"]}
                    grpc = "grpc" if secure else "kubernetes.io/h2c"
                    self.assertEqual(protocols, {"grpc": grpc, "admin": "http"})

    def test_target_ports_exist_in_the_pods(self):
        for objects in self.each():
            for server in objects.servers():
                named = {port["name"] for port in chart.main_container(server["spec"]["template"])["ports"]}
                for service in objects.all("Service"):
                    self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, named)

    def test_ports_are_those_of_the_convention(self):
        ports = {
            server["metadata"]["name"]: [port["containerPort"] for port in chart.main_container(server["spec"]["template"])["ports"]]
            for server in chart.render_ci("minimal").servers()
        }
        self.assertEqual(ports, {"rel-dslide-shard": [7010, 7011], "rel-dslide-coordinator": [7000, 7001]})


class ProbeTest(Case):
    def probes(self):
        for server in self.each_server():
            container = chart.main_container(server["spec"]["template"])
            for kind in PROBES:
                if kind in container:
                    yield kind, container[kind]

    def test_probes_ask_the_admin_port(self):
        for _, probe in self.probes():
            self.assertEqual(probe["httpGet"]["port"], "admin")

    def test_probes_need_no_certificate_so_tls_does_not_change_them(self):
        for kind, probe in self.probes():
            self.assertNotIn("grpc", probe)
            self.assertNotIn("exec", probe)
            self.assertNotIn("scheme", probe["httpGet"])

    def test_liveness_asks_livez_and_readiness_readyz(self):
        paths = {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
        for kind, probe in self.probes():
            self.assertEqual(probe["httpGet"]["path"], paths[kind])

    def test_a_shard_may_take_ten_minutes_to_restore_its_state(self):
        probe = chart.main_container(chart.render_ci("minimal").shards()["spec"]["template"])["startupProbe"]
        self.assertGreaterEqual(probe["periodSeconds"] * probe["failureThreshold"], 600)

    def test_a_probe_can_be_turned_off(self):
        container = chart.main_container(chart.render_ci("passthrough").shards()["spec"]["template"])
        self.assertNotIn("startupProbe", container)
        self.assertIn("livenessProbe", container)


class ShutdownTest(Case):
    def test_the_grace_period_is_longer_than_drain_and_final_save(self):
        for name, objects in chart.every_ci():
            values = chart_values(name)
            for part, server in (("shard", objects.shards()), ("coordinator", objects.coordinator())):
                with self.subTest(values=name, part=part):
                    grace = server["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
                    self.assertGreaterEqual(grace, sum(values[part]["drain"].values()))

    def test_the_drain_that_is_counted_is_the_drain_that_is_configured(self):
        given = chart.flags(chart.main_container(chart.render_ci("ha").shards()["spec"]["template"]))
        self.assertEqual((given["drain-delay"], given["drain-timeout"]), ("10s", "10s"))

    def test_no_grace_period_is_zero(self):
        for pod in self.each_pod():
            self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], 0)

    def test_the_program_is_the_first_process_without_a_shell(self):
        for container in self.each_container():
            self.assertIn(container["command"], (["dslide"], ["dslide-shard"], ["dslide-coordinator"]))

    def test_no_hook_changes_membership_when_a_pod_stops(self):
        for container in self.each_container():
            self.assertNotIn("lifecycle", container)


class AvailabilityTest(Case):
    def test_one_shard_at_a_time_may_be_evicted(self):
        budget = chart.render_ci("minimal").one("PodDisruptionBudget")
        self.assertEqual(budget["spec"]["maxUnavailable"], 1)
        self.assertEqual(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow")

    def test_a_budget_covers_exactly_the_shards(self):
        for objects in self.each():
            for budget in objects.all("PodDisruptionBudget"):
                self.assertEqual(budget["spec"]["selector"], objects.shards()["spec"]["selector"])

    def test_a_single_shard_has_no_budget_that_would_block_a_node(self):
        self.assertEqual(chart.render_ci("no-persistence").all("PodDisruptionBudget"), [])

    def test_shards_avoid_each_others_nodes_by_preference(self):
        affinity = chart.render_ci("minimal").shards()["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        self.assertEqual(list(affinity), ["preferredDuringSchedulingIgnoredDuringExecution"])

    def test_shards_can_be_kept_on_different_nodes(self):
        affinity = chart.render_ci("ha").shards()["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
        self.assertEqual(list(affinity), ["requiredDuringSchedulingIgnoredDuringExecution"])

    def test_shards_spread_over_zones(self):
        shards = chart.render_ci("minimal").shards()["spec"]
        spread = shards["template"]["spec"]["topologySpreadConstraints"][0]
        self.assertEqual(spread["topologyKey"], "topology.kubernetes.io/zone")
        self.assertEqual(spread["labelSelector"], shards["selector"])

    def test_nothing_scales_shards_automatically(self):
        for objects in self.each():
            self.assertEqual(objects.all("HorizontalPodAutoscaler"), [])


class MemoryTest(Case):
    def budget(self, shard):
        objects = chart.render(overrides={"insecure": True, "shard": shard})
        return chart.flags(chart.main_container(objects.shards()["spec"]["template"])).get("memory-budget")

    def limits(self, memory):
        return self.budget({"resources": {"limits": {"memory": memory}}})

    def test_rows_may_take_nine_tenths_of_the_memory_limit_less_the_other_budgets(self):
        self.assertEqual(self.limits("10Gi"), "7296MiB")
        self.assertEqual(self.limits("4.5Gi"), "2227MiB")
        self.assertEqual(self.limits("8000M"), "4946MiB")
        self.assertEqual(self.limits(4 << 30), "1766MiB")

    def test_smaller_budgets_leave_more_for_rows(self):
        small = {"context-budget": "64MiB", "reply-budget": "32MiB", "queue-budget": "32MiB", "bulk-budget": 134217728}
        shard = {"resources": {"limits": {"memory": "1Gi"}}, "config": small}
        self.assertEqual(self.budget(shard), "665MiB")

    def test_a_given_memory_budget_is_passed_on(self):
        self.assertEqual(self.budget({"memoryBudget": "3GiB"}), "3GiB")

    def test_without_a_limit_the_program_chooses_the_budget(self):
        self.assertIsNone(self.budget({"resources": {"limits": None}}))

    def test_threads_follow_the_cpu_limit(self):
        container = chart.main_container(chart.render_ci("ha").shards()["spec"]["template"])
        env = {item["name"]: item for item in container["env"]}
        self.assertEqual(env["DSLIDE_THREADS"]["valueFrom"]["resourceFieldRef"]["resource"], "limits.cpu")

    def test_large_numbers_of_the_configuration_are_written_in_full(self):
        objects = chart.render(overrides={"insecure": True, "shard": {"config": {"max-clients": 5000000}}})
        self.assertIn('max-clients = "5000000"', objects.one("ConfigMap", "-shard")["data"]["dslide.conf"])


if __name__ == "__main__":
    chart.renderer()
    chart.run_tests()
