"""What operators expect of a chart like this, one sentence a test, on what is rendered."""

import re
import unittest

import chart
import yaml

VERSION_LABELS = {"app.kubernetes.io/version", "helm.sh/chart"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def default_values():
    return yaml.safe_load((chart.CHART / "values.yaml").read_text())


class Case(unittest.TestCase):
    """Tests that look at every file of values, or at one."""

    def each(self):
        for name, objects in chart.every_ci():
            with self.subTest(values=name):
                yield objects

    def each_server(self):
        for objects in self.each():
            for server in objects.servers():
                yield server

    def each_container(self):
        """Containers that the chart makes; those of users are theirs."""
        for name, objects in chart.every_ci():
            for owner, pod in objects.pods().items():
                spec = pod["spec"]
                for item in spec["containers"] + (spec.get("initContainers") or []):
                    theirs = item["name"] in ("shipper", "wait", "train-data", "test-data")
                    if not theirs:
                        with self.subTest(values=name, owner=owner, container=item["name"]):
                            yield item

    def each_pod(self):
        for name, objects in chart.every_ci():
            for owner, pod in objects.pods().items():
                with self.subTest(values=name, owner=owner):
                    yield pod


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


class SecurityTest(Case):
    def test_containers_run_as_a_numeric_user_that_is_not_root(self):
        for name, objects in chart.every_ci():
            if name != "openshift":
                for owner, pod in objects.pods().items():
                    with self.subTest(values=name, owner=owner):
                        self.assertEqual(pod["spec"]["securityContext"]["runAsUser"], 10001)
                        self.assertEqual(chart.main_container(pod)["securityContext"]["runAsUser"], 10001)

    def test_every_container_satisfies_the_restricted_pod_security_standard(self):
        for container in self.each_container():
            context = container["securityContext"]
            self.assertIs(context["runAsNonRoot"], True)
            self.assertIs(context["allowPrivilegeEscalation"], False)
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
        for pod in self.each_pod():
            self.assertEqual(pod["spec"]["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})

    def test_the_root_file_system_is_read_only_and_tmp_is_writable(self):
        for container in self.each_container():
            self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
        for pod in self.each_pod():
            mounts = {mount["name"]: mount["mountPath"] for mount in chart.main_container(pod)["volumeMounts"]}
            self.assertEqual(mounts["tmp"], "/tmp")
            self.assertIn({"name": "tmp", "emptyDir": {}}, pod["spec"]["volumes"])

    def test_volumes_are_handed_over_by_fs_group_only_where_needed(self):
        for objects in self.each():
            for server in objects.servers():
                context = server["spec"]["template"]["spec"]["securityContext"]
                self.assertEqual(context["fsGroupChangePolicy"], "OnRootMismatch")

    def test_the_chart_has_no_init_container_in_its_servers(self):
        for name, objects in chart.every_ci():
            if name != "passthrough":
                for server in objects.servers():
                    self.assertNotIn("initContainers", server["spec"]["template"]["spec"])

    def test_users_can_be_left_to_the_platform(self):
        for owner, pod in chart.render_ci("openshift").pods().items():
            with self.subTest(owner=owner):
                for context in (pod["spec"]["securityContext"], chart.main_container(pod)["securityContext"]):
                    self.assertFalse({"runAsUser", "runAsGroup", "fsGroup"} & set(context))
                    self.assertIs(context["runAsNonRoot"], True)

    def test_no_pod_gets_a_token_of_the_kubernetes_api(self):
        for pod in self.each_pod():
            self.assertIs(pod["spec"]["automountServiceAccountToken"], False)
        self.assertIs(chart.render_ci("minimal").one("ServiceAccount")["automountServiceAccountToken"], False)

    def test_no_service_of_the_namespace_leaks_into_the_environment(self):
        # A service named dslide-... would set variables DSLIDE_..., which the programs read.
        for pod in self.each_pod():
            self.assertIs(pod["spec"]["enableServiceLinks"], False)

    def test_the_chart_makes_no_role_and_no_secret(self):
        for name, objects in chart.every_ci():
            if name != "passthrough":
                kinds = {item["kind"] for item in objects}
                self.assertFalse(kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"})

    def test_every_image_is_our_own(self):
        for container in self.each_container():
            self.assertRegex(container["image"], r"(^|/)dslide[:@]")


class TlsTest(Case):
    def test_plaintext_needs_a_value_that_says_insecure(self):
        for name, objects in chart.every_ci():
            for server in objects.servers():
                given = chart.flags(chart.main_container(server["spec"]["template"]))
                with self.subTest(values=name):
                    self.assertEqual("insecure" in given, name not in ("tls", "ha"))
                    self.assertNotEqual("insecure" in given, "tls-ca" in given)

    def test_certificates_are_mounted_as_a_folder_so_that_rotation_arrives(self):
        for name in ("tls", "ha"):
            for owner, pod in chart.render_ci(name).pods().items():
                if not owner.startswith("Pod "):
                    mounts = [mount for mount in chart.main_container(pod)["volumeMounts"] if mount["name"] == "tls"]
                    self.assertEqual(mounts, [{"name": "tls", "mountPath": "/etc/dslide/tls", "readOnly": True}])

    def test_each_part_uses_its_own_certificate(self):
        secrets = {}
        for owner, pod in chart.render_ci("tls").pods().items():
            for volume in pod["spec"]["volumes"]:
                if "secret" in volume:
                    secrets.setdefault(owner.split("-")[-1 if "trainer" not in owner else -2], set()).add(volume["secret"]["secretName"])
        self.assertEqual(secrets["shard"], {"dslide-shard-tls"})
        self.assertEqual(secrets["coordinator"], {"dslide-coordinator-tls"})
        self.assertEqual(secrets["trainer"], {"dslide-trainer-tls"})
        self.assertEqual(secrets["test"], {"dslide-operator-tls", "dslide-trainer-tls"})

    def test_keys_are_not_readable_by_others(self):
        for owner, pod in chart.render_ci("tls").pods().items():
            for volume in pod["spec"]["volumes"]:
                if "secret" in volume:
                    self.assertEqual(volume["secret"]["defaultMode"] & 0o007, 0, owner)

    def test_certificates_of_shards_cover_every_pod_of_the_headless_service(self):
        names = chart.render_ci("ha").one("Certificate", "-shard")["spec"]["dnsNames"]
        self.assertIn("*.dslide-shard-headless.ns.svc", names)
        self.assertIn("*.dslide-shard-headless.ns.svc.cluster.local", names)

    def test_every_address_in_a_flag_is_covered_by_the_certificate_behind_it(self):
        objects = chart.render_ci("ha")
        covered = [
            name for certificate in objects.all("Certificate") for name in certificate["spec"].get("dnsNames", [])
        ]
        shard = chart.flags(chart.main_container(objects.shards()["spec"]["template"]))
        for address in (shard["coordinator"], shard["advertise"].replace("$(POD_NAME)", "dslide-shard-0")):
            host = address.rpartition(":")[0]
            self.assertTrue(
                any(host == name or (name.startswith("*.") and host.partition(".")[2] == name[2:]) for name in covered),
                f"{host} is in none of {covered}",
            )

    def test_each_certificate_names_its_role(self):
        for certificate in chart.render_ci("ha").all("Certificate"):
            role = certificate["metadata"]["labels"]["app.kubernetes.io/component"]
            self.assertEqual(certificate["spec"]["uris"], [f"dslide://dslide/{role}"])

    def test_certificates_are_good_for_both_ends_of_a_connection(self):
        for certificate in chart.render_ci("ha").all("Certificate"):
            self.assertLessEqual({"server auth", "client auth"}, set(certificate["spec"]["usages"]))
            self.assertEqual(certificate["spec"]["privateKey"]["rotationPolicy"], "Always")


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

    def test_rows_may_take_sixty_percent_of_the_memory_limit(self):
        self.assertEqual(self.limits("10Gi"), "6144MiB")
        self.assertEqual(self.limits("1.5Gi"), "921MiB")
        self.assertEqual(self.limits("2000M"), "1144MiB")
        self.assertEqual(self.limits(1 << 30), "614MiB")

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


class TrainerTest(Case):
    def job(self):
        return chart.render_ci("trainer").one("Job")

    def test_trainers_are_off_by_default(self):
        self.assertEqual(chart.render_ci("minimal").all("Job"), [])

    def test_trainers_are_an_indexed_job_with_failures_counted_per_index(self):
        spec = self.job()["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual((spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]), (3, 3, 10))

    def test_a_lost_spot_node_is_no_failure(self):
        rule = self.job()["spec"]["podFailurePolicy"]["rules"][0]
        self.assertEqual(rule, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})
        self.assertEqual(self.job()["spec"]["template"]["spec"]["restartPolicy"], "Never")

    def test_wrong_flags_and_lost_state_fail_the_job_at_once(self):
        rule = self.job()["spec"]["podFailurePolicy"]["rules"][1]
        self.assertEqual((rule["action"], rule["onExitCodes"]["values"]), ("FailJob", [2, 5]))
        self.assertEqual(rule["onExitCodes"]["containerName"], chart.main_container(self.job()["spec"]["template"])["name"])

    def test_trainers_tolerate_spot_nodes_and_shards_do_not(self):
        objects = chart.render_ci("trainer")
        keys = {item["key"] for item in objects.one("Job")["spec"]["template"]["spec"]["tolerations"]}
        self.assertIn("cloud.google.com/gke-spot", keys)
        self.assertNotIn("tolerations", objects.shards()["spec"]["template"]["spec"])

    def test_a_changed_trainer_is_another_job_of_the_same_run(self):
        overrides = {"insecure": True, "trainer": {"enabled": True, "job": "run", "data": "/d"}}
        one = chart.render(overrides=overrides).one("Job")
        overrides["trainer"]["extraArgs"] = ["--seed=2"]
        other = chart.render(overrides=overrides).one("Job")
        self.assertNotEqual(one["metadata"]["name"], other["metadata"]["name"])
        for job in (one, other):
            self.assertEqual(chart.flags(chart.main_container(job["spec"]["template"]))["job"], "run")

    def test_the_model_is_an_immutable_config_map_that_the_trainer_reads(self):
        objects = chart.render_ci("trainer")
        volumes = objects.one("Job")["spec"]["template"]["spec"]["volumes"]
        name = next(volume["configMap"]["name"] for volume in volumes if volume["name"] == "model")
        self.assertIs(objects.one("ConfigMap", name)["immutable"], True)


class NetworkTest(Case):
    def policy(self, part):
        return chart.render_ci("ha").one("NetworkPolicy", f"-{part}")["spec"]

    def test_policies_are_off_by_default_and_cover_every_part(self):
        self.assertEqual(chart.render_ci("minimal").all("NetworkPolicy"), [])
        parts = {item["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for item in chart.render_ci("ha").all("NetworkPolicy")}
        self.assertEqual(parts, {"shard", "coordinator", "trainer", "test"})

    def test_policies_deny_what_they_do_not_name(self):
        for item in chart.render_ci("ha").all("NetworkPolicy"):
            self.assertEqual(item["spec"]["policyTypes"], ["Ingress", "Egress"])
            for rule in item["spec"]["ingress"]:
                self.assertTrue(rule["from"] and rule["ports"])

    def test_grpc_is_open_to_the_release_and_to_named_clients(self):
        rule = self.policy("shard")["ingress"][0]
        self.assertEqual([port["port"] for port in rule["ports"]], [7010])
        self.assertIn({"podSelector": {"matchLabels": {"dslide-client": "true"}}}, rule["from"])

    def test_metrics_are_open_to_the_monitoring_namespace(self):
        rule = self.policy("shard")["ingress"][1]
        self.assertEqual([port["port"] for port in rule["ports"]], [7011])
        self.assertIn({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}, rule["from"])

    def test_pods_may_ask_dns_and_their_peers(self):
        rules = self.policy("shard")["egress"]
        self.assertEqual({port["port"] for port in rules[0]["ports"]}, {53})
        self.assertEqual({port["port"] for port in rules[1]["ports"]}, {7000, 7001, 7010, 7011})


class MetricsTest(Case):
    def test_monitors_are_made_only_where_the_operator_is(self):
        values = [chart.CHART / "ci" / "monitoring-values.yaml"]
        kinds = {item["kind"] for item in chart.render(values, apis=())}
        self.assertFalse(kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule"})
        kinds = {item["kind"] for item in chart.render(values)}
        self.assertLessEqual({"ServiceMonitor", "PrometheusRule"}, kinds)

    def test_monitoring_is_off_by_default(self):
        kinds = {item["kind"] for item in chart.render_ci("minimal")}
        self.assertFalse(kinds & {"ServiceMonitor", "PodMonitor", "PrometheusRule"})

    def test_a_service_monitor_selects_each_server_once(self):
        objects = chart.render_ci("monitoring")
        wanted = objects.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
        chosen = [item for item in objects.all("Service") if wanted <= item["metadata"]["labels"].items()]
        parts = sorted(item["spec"]["selector"]["app.kubernetes.io/component"] for item in chosen)
        self.assertEqual(parts, ["coordinator", "shard"])

    def test_labels_and_relabelings_of_users_reach_the_monitor(self):
        monitor = chart.render_ci("monitoring").one("ServiceMonitor")
        self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
        self.assertIn({"targetLabel": "cluster", "replacement": "test"}, monitor["spec"]["endpoints"][0]["relabelings"])

    def test_dashboards_carry_the_label_that_grafana_looks_for(self):
        for item in chart.render_ci("ha").all("ConfigMap"):
            if "-dashboard-" in item["metadata"]["name"]:
                self.assertEqual(item["metadata"]["labels"]["grafana_dashboard"], "1")
                self.assertEqual(item["metadata"]["annotations"]["grafana_folder"], "dslide")

    def test_there_is_a_config_map_for_every_dashboard_file(self):
        files = {path.name for path in (chart.CHART / "files" / "dashboards").glob("*.json")}
        made = {
            name for item in chart.render_ci("ha").all("ConfigMap")
            if "-dashboard-" in item["metadata"]["name"] for name in item["data"]
        }
        self.assertEqual(made, files)


class HelmTestTest(Case):
    def pod(self):
        return chart.render_ci("tls").one("Pod")

    def test_helm_test_is_one_pod_that_is_deleted_when_it_succeeds(self):
        notes = self.pod()["metadata"]["annotations"]
        self.assertEqual(notes["helm.sh/hook"], "test")
        self.assertEqual(notes["helm.sh/hook-delete-policy"], "before-hook-creation,hook-succeeded")
        self.assertEqual(self.pod()["spec"]["restartPolicy"], "Never")

    def test_helm_test_trains_on_the_cluster_with_our_command(self):
        train = chart.main_container(self.pod())
        self.assertIn("train", train["args"])
        self.assertEqual(chart.flags(train)["job"], "helm-test-$(POD_UID)")

    def test_helm_test_ends(self):
        self.assertLessEqual(self.pod()["spec"]["activeDeadlineSeconds"], 600)


class PassthroughTest(Case):
    def setUp(self):
        self.objects = chart.render_ci("passthrough")
        self.shards = self.objects.shards()
        self.pod = self.shards["spec"]["template"]

    def test_registry_and_pull_secrets_of_the_parent_chart_are_used(self):
        self.assertEqual(chart.main_container(self.pod)["image"], "mirror.example.com/dslide:0.1.0")
        self.assertEqual(self.pod["spec"]["imagePullSecrets"], [{"name": "mirror"}, {"name": "extra"}])

    def test_a_digest_outranks_the_tag(self):
        image = chart.main_container(chart.render_ci("ha").shards()["spec"]["template"])["image"]
        self.assertRegex(image, r"^registry\.example\.com/ml/dslide@sha256:[0-9a-f]{64}$")

    def test_pods_take_labels_annotations_and_places_of_the_user(self):
        self.assertEqual(self.pod["metadata"]["labels"]["tier"], "data")
        self.assertEqual(self.pod["metadata"]["annotations"]["sidecar.istio.io/inject"], "false")
        spec = self.pod["spec"]
        self.assertEqual(spec["nodeSelector"], {"disk": "ssd"})
        self.assertEqual((spec["priorityClassName"], spec["runtimeClassName"]), ("high", "gvisor"))
        self.assertIn("nodeAffinity", spec["affinity"])
        self.assertEqual(spec["topologySpreadConstraints"][0]["labelSelector"], {"matchLabels": {"tier": "data"}})

    def test_containers_and_volumes_of_the_user_are_added(self):
        spec = self.pod["spec"]
        self.assertEqual([item["name"] for item in spec["containers"]], ["shard", "shipper"])
        self.assertEqual([item["name"] for item in spec["initContainers"]], ["wait"])
        self.assertIn({"name": "scratch", "emptyDir": {}}, spec["volumes"])
        self.assertIn({"name": "scratch", "mountPath": "/scratch"}, chart.main_container(self.pod)["volumeMounts"])

    def test_flags_and_environment_of_the_user_come_last(self):
        container = chart.main_container(self.pod)
        self.assertEqual(container["args"][-1], "--max-clients=64")
        self.assertEqual(container["env"][-1]["name"], "DSLIDE_LOG_SYNC_INTERVAL")
        self.assertEqual(container["envFrom"][0]["configMapRef"]["name"], "site")

    def test_extra_objects_are_templates(self):
        self.assertEqual(self.objects.one("ConfigMap", "-extra")["data"], {"shards": "3"})
        self.assertEqual(self.objects.one("Secret")["metadata"]["name"], "rel-text")

    def test_a_checkpoint_claim_is_mounted_by_all_servers(self):
        for server in chart.render_ci("ha").servers():
            paths = {mount["name"]: mount["mountPath"] for mount in chart.main_container(server["spec"]["template"])["volumeMounts"]}
            self.assertEqual(paths["checkpoints"], "/var/lib/dslide/checkpoints")


class PackageTest(Case):
    def test_the_chart_depends_on_no_other_chart(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertNotIn("dependencies", meta)
        self.assertFalse((chart.CHART / "charts").exists())

    def test_chart_yaml_has_what_a_catalogue_shows(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertEqual((meta["apiVersion"], meta["type"]), ("v2", "application"))
        for key in ("version", "appVersion"):
            self.assertRegex(meta[key], r"^\d+\.\d+\.\d+$")
        for key in ("description", "sources", "maintainers", "annotations"):
            self.assertTrue(meta[key], key)

    def test_the_application_version_is_that_of_the_project(self):
        project = re.search(r"project\(dslide VERSION ([0-9.]+)", (chart.ROOT / "CMakeLists.txt").read_text())
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertEqual(meta["appVersion"], project.group(1))

    def test_the_change_log_describes_this_version(self):
        meta = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
        self.assertIn(f"## {meta['version']}", (chart.CHART / "CHANGELOG.md").read_text())

    def test_values_stand_in_the_usual_order(self):
        order = [
            "global", "nameOverride", "fullnameOverride", "commonLabels", "commonAnnotations", "image",
            "imagePullSecrets", "replicaCount", "config", "extraArgs", "extraEnv", "extraEnvFrom", "service",
            "persistence", "shard", "tls", "resources", "startupProbe", "podSecurityContext", "securityContext",
            "nodeSelector", "tolerations", "affinity", "pdb", "networkPolicy", "metrics", "serviceAccount",
            "tests", "extraVolumes", "extraVolumeMounts", "initContainers", "sidecars", "extraObjects",
        ]
        values = default_values()
        for where in (values, values["shard"], values["coordinator"], values["trainer"]):
            places = [order.index(key) for key in where if key in order]
            self.assertEqual(places, sorted(places), list(where))


class NotesTest(Case):
    def text(self, overrides, apis=()):
        text = chart.notes(overrides, apis)
        if text is None:
            self.skipTest("only the renderer in tests/chart/renderer shows the notes, and Go is not here")
        return text

    def test_notes_give_the_address_and_the_next_commands(self):
        text = self.text({"insecure": True})
        for part in ("rel-dslide-coordinator.ns.svc:7000", "port-forward", "helm test", "dslide status"):
            self.assertIn(part, text)

    def test_notes_warn_of_plaintext_and_of_missing_volumes(self):
        text = self.text({"insecure": True, "shard": {"persistence": {"enabled": False}}})
        self.assertIn("WARNING: insecure", text)
        self.assertIn("WARNING: persistence", text)
        secure = {"tls": {"enabled": True, "existingSecret": "s"}, "shard": {"durability": "log"}}
        self.assertNotIn("WARNING", self.text(secure))

    def test_notes_warn_of_monitors_that_could_not_be_made(self):
        values = {"insecure": True, "metrics": {"podMonitor": {"enabled": True}}}
        self.assertIn("Install the Prometheus operator", self.text(values))
        self.assertNotIn("Install the Prometheus operator", self.text(values, [chart.MONITORING]))


def chart_values(name):
    """The values of ci/NAME-values.yaml over the defaults."""

    def merge(below, above):
        for key, value in above.items():
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            below[key] = merge(below[key], value) if both else value
        return below

    return merge(default_values(), yaml.safe_load((chart.CHART / "ci" / f"{name}-values.yaml").read_text()))


if __name__ == "__main__":
    chart.renderer()
    unittest.main()
